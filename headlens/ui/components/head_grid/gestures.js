// Mouse, pen, touch and keyboard, by listeners on the component's root only.
//
// Mouse and pen switch on press and paint while dragged. A finger switches on tap; it paints after a hold, or at once
// when moved sideways in a grid that has no sideways scroll; every other movement is left to the browser for scrolling.

const HOLD = 350; // ms
const SLACK = 8; // px

function listen(g) {
  const on = (name, handler, options) => g.root.addEventListener(name, (event) => handler(g, event), options);
  on("pointerdown", pressed);
  on("pointermove", dragged);
  on("pointerup", released);
  on("pointercancel", released);
  on("pointerover", hovered);
  on("pointerleave", (_, event) => event.pointerType !== "touch" && hideTip(g));
  on("touchmove", (_, event) => g.gesture?.painting && event.preventDefault(), { passive: false });
  on("contextmenu", (_, event) => g.gesture?.touch && event.preventDefault());
  on("click", clicked);
  on("keydown", keyed);
  on("keyup", keyLifted);
  on("focusin", focused);
  on("focusout", (_, event) => !g.root.contains(event.relatedTarget) && hideTip(g));
  on("scroll", () => hideTip(g), { capture: true, passive: true });
}

function pressed(g, event) {
  g.handledClick = null;
  clearTimeout(g.clickTimer);
  const cell = placeOf(g, event.target);
  if (!cell || !isHead(cell) || event.button !== 0 || event.ctrlKey || !event.isPrimary || cell.gone) return;
  const touch = event.pointerType === "touch";
  g.gesture = { cell, last: cell, touch, id: event.pointerId, x: event.clientX, y: event.clientY };
  if (touch) {
    g.gesture.hold = setTimeout(() => {
      startPainting(g);
      if (navigator.userActivation?.hasBeenActive) navigator.vibrate?.(10);
    }, HOLD);
    return;
  }
  cell.button.focus({ preventScroll: true });
  if (!event.shiftKey) return startPainting(g);
  event.preventDefault();
  g.handledClick = cell;
  setRange(g, cell);
  g.gesture = null;
}

// Switches the first head; the others on the way will get the same state.
function startPainting(g) {
  const { cell } = g.gesture;
  g.handledClick = cell;
  g.anchor = cell;
  g.gesture.off = !g.off.has(cell.label);
  setHeads(g, [cell], g.gesture.off);
  g.gesture.painting = true;
  look(g, cell);
}

function dragged(g, event) {
  const { gesture } = g;
  if (!gesture || event.pointerId !== gesture.id) return;
  if (!gesture.painting) {
    const [dx, dy] = [Math.abs(event.clientX - gesture.x), Math.abs(event.clientY - gesture.y)];
    if (Math.max(dx, dy) < SLACK) return;
    clearTimeout(gesture.hold);
    if (dx <= dy || gesture.cell.grid.scroller.classList.contains("hl-wide")) {
      g.gesture = null;
      return;
    }
    startPainting(g);
  }
  if (!gesture.touch && !(event.buttons & 1)) return released(g, event);
  const cell = placeOf(g, g.root.getRootNode().elementFromPoint(event.clientX, event.clientY));
  if (!cell || !isHead(cell) || cell === gesture.last) return;
  if (!g.root.hasPointerCapture(gesture.id)) g.root.setPointerCapture(gesture.id);
  setHeads(g, between(gesture.last, cell), gesture.off);
  gesture.last = cell;
  look(g, cell);
  showTip(g, cell);
}

// Heads on the straight line between two, so that a quick drag leaves no holes.
function between(from, to) {
  if (from.grid !== to.grid) return [to];
  const steps = Math.max(Math.abs(to.r - from.r), Math.abs(to.c - from.c));
  const line = Array.from({ length: steps }, (_, i) => {
    const share = (i + 1) / steps;
    return at(to.grid, Math.round(from.r + (to.r - from.r) * share), Math.round(from.c + (to.c - from.c) * share));
  });
  return line.filter(Boolean);
}

function released(g, event) {
  const { gesture } = g;
  if (!gesture || event.pointerId !== gesture.id) return;
  clearTimeout(gesture.hold);
  g.gesture = null;
  if (g.maskTimer) flushMask(g);
  g.clickTimer = setTimeout(() => (g.handledClick = null), 400);
}

// Taps, headers, screen readers and scripts arrive here; a press that has already switched does not count twice.
function clicked(g, event) {
  const place = placeOf(g, event.target);
  const handled = g.handledClick;
  g.handledClick = null;
  if (!place || (handled && (handled === place || event.detail > 0))) return;
  if (!isHead(place)) return toggleLine(g, place);
  place.button.focus({ preventScroll: true });
  if (event.shiftKey) setRange(g, place);
  else {
    toggle(g, place);
    g.anchor = place.gone ? g.anchor : place;
  }
  look(g, place);
  showTip(g, place);
  if (event.pointerType === "touch") g.tipTimer = setTimeout(() => hideTip(g), 2500);
}

function hovered(g, event) {
  const cell = event.pointerType === "touch" ? undefined : placeOf(g, event.target);
  if (!cell || !isHead(cell)) return event.pointerType === "touch" ? undefined : hideTip(g);
  look(g, cell);
  showTip(g, cell);
}

function focused(g, event) {
  const place = placeOf(g, event.target);
  if (!place) return;
  setTabStop(place.grid, place);
  if (!isHead(place)) return hideTip(g);
  look(g, place);
  if (place.button.matches(":focus-visible")) showTip(g, place);
}

// The next place in a direction, over the holes of ragged grids; headers are part of the way.
function step(place, dr, dc) {
  const { grid } = place;
  let [r, c] = [place.r + dr, place.c + dc];
  while (r >= -1 && c >= -1 && r < grid.cells.length && c < grid.columnHeads.length && (r >= 0 || c >= 0)) {
    const found = at(grid, r, c);
    if (found) return found;
    [r, c] = [r + dr, c + dc];
  }
  return undefined;
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const PAGE = 5; // layers

function destination(place, event) {
  const { grid } = place;
  if (ARROWS[event.key]) return step(place, ...ARROWS[event.key]);
  if (event.key === "PageUp" || event.key === "PageDown") {
    const dr = event.key === "PageUp" ? -1 : 1;
    let found = place;
    for (let i = 0; i < PAGE; i++) {
      const next = step(found, dr, 0);
      if (!next || (next.r < 0 && place.r >= 0)) break;
      found = next;
    }
    return found;
  }
  if (event.key !== "Home" && event.key !== "End") return undefined;
  const first = event.key === "Home";
  const rows = event.ctrlKey ? grid.cells.filter((row) => row.length) : [grid.cells[place.r] ?? grid.columnHeads];
  return rows.at(first ? 0 : -1)?.at(first ? 0 : -1);
}

function keyed(g, event) {
  const place = placeOf(g, event.target);
  if (!place || event.altKey || event.metaKey) return;
  if (event.key !== "Shift" && !event.shiftKey) g.keyPaint = undefined;
  if (event.key === "Escape") {
    hideTip(g);
    if (g.pinned) pin(g, null);
    return;
  }
  if (event.key === " " || event.key === "Enter") {
    event.preventDefault();
    if (!event.repeat) activated(g, place, event.key);
    return;
  }
  const target = destination(place, event);
  if (!target) {
    if (ARROWS[event.key]) event.preventDefault();
    return;
  }
  event.preventDefault();
  if (event.shiftKey && ARROWS[event.key] && isHead(place)) {
    if (!isHead(target)) return;
    if (!place.gone) g.keyPaint ??= g.off.has(place.label);
    if (g.keyPaint !== undefined) setHeads(g, [target], g.keyPaint);
  }
  moveTo(g, target);
}

function activated(g, place, key) {
  if (!isHead(place)) toggleLine(g, place);
  else if (key === "Enter") pin(g, g.pinned === place.label ? null : place.label);
  else {
    toggle(g, place);
    g.anchor = place.gone ? g.anchor : place;
  }
}

function keyLifted(g, event) {
  if (event.key === "Shift") g.keyPaint = undefined;
  if (event.key === " " && placeOf(g, event.target)) event.preventDefault(); // no second switch by the button's own click
}

function moveTo(g, place) {
  place.button.focus({ preventScroll: true });
  place.button.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (isHead(place)) showTip(g, place);
}
