// What the user's gestures do: switch heads, look at one, pin one; and what is said about it.

// Sets heads off or on; returns how many changed.
function setHeads(g, cells, off) {
  const changed = cells.filter((cell) => !cell.gone && g.off.has(cell.label) !== off);
  if (!changed.length) return 0;
  for (const cell of changed) {
    if (off) g.off.add(cell.label);
    else g.off.delete(cell.label);
    paintCell(g, cell);
  }
  new Set(changed.map((cell) => cell.grid)).forEach((grid) => paintHeaders(g, grid));
  g.masks.seq++;
  sendMask(g);
  announce(g, changed, off);
  showLegend(g);
  showTip(g);
  return changed.length;
}

const toggle = (g, cell) => setHeads(g, [cell], !g.off.has(cell.label));

// A whole row or column: off if any of it is on, else back on.
function toggleLine(g, place) {
  const cells = lineOf(place).filter((cell) => !cell.gone);
  setHeads(g, cells, cells.some((cell) => !g.off.has(cell.label)));
}

// The rectangle between the head switched last and this one takes the state of the former.
function setRange(g, cell) {
  const from = g.anchor;
  if (!from || from.grid !== cell.grid) return toggle(g, cell);
  const [top, bottom] = [Math.min(from.r, cell.r), Math.max(from.r, cell.r)];
  const [left, right] = [Math.min(from.c, cell.c), Math.max(from.c, cell.c)];
  const cells = cell.grid.cells.slice(top, bottom + 1).flatMap((row) => row.slice(left, right + 1));
  return setHeads(g, cells, g.off.has(from.label));
}

// Each message is the whole set, so a later one replaces an earlier one; while a drag goes on some are left out.
function sendMask(g) {
  clearTimeout(g.maskTimer);
  g.maskTimer = null;
  if (g.gesture?.painting) g.maskTimer = setTimeout(() => flushMask(g), 120);
  else flushMask(g);
}

// Names keep the plain hyphen, which programs can read as a number; what is seen gets the proper sign.
const minus = (text) => text.replaceAll("-", "−");

function flushMask(g) {
  clearTimeout(g.maskTimer);
  g.maskTimer = null;
  g.set("mask", { off: [...g.off], seq: g.masks.seq });
}

const noun = (g, n) => `${g.grids[0].site.letter === "H" ? "head" : "group"}${n === 1 ? "" : "s"}`;

function announce(g, changed, off) {
  const what = changed.length === 1 ? changed[0].label : `${changed.length} ${noun(g, changed.length)}`;
  g.live.textContent = `${what} ${off ? "off" : "on"}, ${g.off.size} ${noun(g, g.off.size)} off`;
}

// The head looked at: marked at once, told to the page when the look rests.
function look(g, cell) {
  if (g.active !== cell.label) {
    mark(g, "hl-active", g.active, cell.label);
    g.active = cell.label;
    for (const place of g.hot ?? []) place.button.classList.remove("hl-hot");
    g.hot = [cell.grid.rowHeads[cell.r], cell.grid.columnHeads[cell.c]];
    for (const place of g.hot) place.button.classList.add("hl-hot");
  }
  clearTimeout(g.lookTimer);
  g.lookTimer = setTimeout(() => {
    if (g.sentActive === g.active) return;
    g.sentActive = g.active;
    g.set("active", { label: g.active });
  }, 80);
}

function mark(g, name, before, after) {
  g.byLabel.get(before)?.button.classList.remove(name);
  g.byLabel.get(after)?.button.classList.add(name);
}

function pin(g, label, { silent = false } = {}) {
  mark(g, "hl-pinned", g.pinned, label);
  const changed = g.pinned !== label;
  g.pinned = label;
  if (!changed || silent) return;
  g.live.textContent = label ? `${label} pinned` : "unpinned";
  g.set("pinned", { label, seq: ++g.pins.seq });
}

function showTip(g, cell = g.tipped) {
  if (!cell) return;
  g.tipped = cell;
  const { site } = cell.grid;
  const text = site.text[cell.r][cell.c];
  const sem = site.sem?.[cell.r][cell.c];
  const rank = site.rank[cell.r][cell.c];
  const line = (name, ...words) => make("div", { class: name }, words.filter(Boolean).join(" "));
  const state = cell.gone ? "cut out" : g.off.has(cell.label) ? "off" : "on";
  const lines = [make("div", { class: "hl-tip-head" }, make("b", {}, cell.label), make("span", {}, state))];
  if (!cell.gone) lines.push(line("hl-tip-score", text ? minus(text) : "score pending", text && sem && `± ${sem}`, text && g.data.scale.unit));
  if (rank) {
    const below = Math.floor((100 * (g.data.ranked - rank)) / g.data.ranked);
    lines.push(line("hl-tip-note", `rank ${rank} of ${g.data.ranked}, above ${below} % of them`));
  }
  if (site.roles[cell.label]) lines.push(line("hl-tip-note", site.roles[cell.label]));
  g.tip.replaceChildren(...lines);
  if (g.tip.hidden) {
    g.tip.hidden = false;
    g.tip.showPopover?.(); // above everything; without it the tip is merely in place
  }
  const box = cell.button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = g.tip;
  const left = Math.min(Math.max(4, box.left + box.width / 2 - width / 2), window.innerWidth - width - 4);
  const top = box.top - height - 8 > 0 ? box.top - height - 8 : box.bottom + 8;
  g.tip.style.translate = `${Math.round(left)}px ${Math.round(top)}px`;
}

function hideTip(g) {
  g.tipped = null;
  clearTimeout(g.tipTimer);
  if (g.tip.hidden) return;
  g.tip.hidePopover?.();
  g.tip.hidden = true;
}

function showLegend(g) {
  const { scale } = g.data;
  const cells = [...g.byLabel.values()];
  const left = cells.filter((cell) => !cell.gone);
  const pending = left.filter((cell) => cell.grid.site.text[cell.r][cell.c] === null).length;
  const colours = ramp(scale.kind, g.dark).filter((_, i) => i % 8 === 0);
  const marks = g.data.marks?.legend.map((mark) => ({ ...mark, css: markColour(mark.colour, g.dark) })) ?? null;
  const parts = {
    marks,
    gradient: `linear-gradient(to right, ${colours.join(",")})`,
    low: minus(scale.lowText),
    high: minus(scale.highText),
    zero: scale.low < 0 && scale.high > 0 ? position(0, scale) : null,
    unit: scale.unit,
    count: `${g.off.size} of ${left.length} ${noun(g, left.length)} off`,
    pending: pending ? `${pending} pending` : "",
    gone: cells.length > left.length ? `${cells.length - left.length} cut out` : "",
  };
  const id = JSON.stringify(parts);
  if (g.legendId === id) return;
  g.legendId = id;
  const zero = parts.zero === null ? [] : [make("span", { class: "hl-zero", style: `left:${100 * parts.zero}%` }, "0")];
  const strip = make("div", { class: "hl-strip", style: `background:${parts.gradient}` });
  if (zero.length) strip.append(make("i", { style: `left:${100 * parts.zero}%` }));
  const key = (name, text) => (text ? [make("span", { class: "hl-key" }, make("i", { class: `hl-swatch ${name}` }), text)] : []);
  const scored = () => [
    make("div", { class: "hl-scale" }, strip,
      make("div", { class: "hl-ticks" }, make("span", {}, parts.low), ...zero, make("span", {}, parts.high))),
    ...(parts.unit ? [make("span", { class: "hl-unit" }, parts.unit)] : []),
  ];
  const marked = ({ letter, title, count, css }) => make("span", { class: "hl-key" },
    make("i", { class: "hl-swatch", "data-mark": letter, style: `--hl-colour:${css}`, "aria-hidden": "true" }), `${title} ${count}`);
  g.legend.replaceChildren(
    ...(marks ? marks.map(marked) : scored()),
    ...key("hl-off", parts.count), ...key("hl-pending", parts.pending), ...key("hl-gone", parts.gone),
  );
}
