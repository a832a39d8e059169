// The grid's elements: built once, then only what changed is touched.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// What must stay the same for the elements to be kept.
const structure = (data) =>
  JSON.stringify(data.grids.map((s) => [s.name, s.title, s.prefix, s.letter, s.columns, s.heads, s.gone]));

function buildAll(g, data) {
  const focused = g.root.getRootNode().activeElement?.dataset?.label;
  hideTip(g);
  g.gesture = null;
  g.hot = [];
  g.sites.replaceChildren();
  g.byLabel = new Map();
  g.grids = data.grids.map((site, index) => buildGrid(g, site, index, data.grids.length > 1));
  g.active = g.byLabel.has(g.active) ? g.active : null;
  g.pinned = g.byLabel.has(g.pinned) ? g.pinned : null;
  g.anchor = null;
  mark(g, "hl-active", null, g.active);
  mark(g, "hl-pinned", null, g.pinned);
  if (g.byLabel.has(focused)) g.byLabel.get(focused).button.focus({ preventScroll: true });
}

function buildGrid(g, site, index, titled) {
  const grid = { index, site, cells: [], rowHeads: [], columnHeads: [], tab: null };
  const button = (kind, r, c, ...children) =>
    make("button", { type: "button", class: `hl-${kind}`, tabindex: "-1", "data-grid": index, "data-r": r, "data-c": c }, ...children);
  const top = make("tr", { role: "row" }, make("td", { role: "presentation", class: "hl-corner" }));
  for (let c = 0; c < site.columns; c++) {
    const head = button("column", -1, c, make("span", {}, site.letter), String(c));
    grid.columnHeads.push({ grid, r: -1, c, button: head });
    top.append(make("th", { role: "columnheader", scope: "col" }, head));
  }
  const body = make("tbody", { role: "rowgroup" });
  site.heads.forEach((count, r) => {
    const head = button("row", r, -1, `L${r}`);
    grid.rowHeads.push({ grid, r, c: -1, button: head });
    const row = make("tr", { role: "row" }, make("th", { role: "rowheader", scope: "row" }, head));
    grid.cells.push([]);
    for (let c = 0; c < site.columns; c++) {
      if (c >= count) {
        row.append(make("td", { role: "presentation" }));
        continue;
      }
      const label = `${site.prefix}L${r}${site.letter}${c}`;
      const cell = { grid, r, c, label, gone: site.gone.includes(label), button: button("cell", r, c) };
      cell.button.dataset.label = label;
      if (cell.gone) {
        cell.button.classList.add("hl-gone");
        cell.button.setAttribute("aria-disabled", "true");
      }
      grid.cells[r].push(cell);
      g.byLabel.set(label, cell);
      row.append(make("td", { role: "gridcell" }, cell.button));
    }
    body.append(row);
  });
  grid.table = make("table", { role: "grid", "aria-label": site.name, "aria-describedby": g.hint.id },
    make("thead", { role: "rowgroup" }, top), body);
  grid.scroller = make("div", { class: "hl-scroll" }, grid.table);
  const section = make("div", { class: "hl-site" });
  if (titled) section.append(make("div", { class: "hl-title", "aria-hidden": "true" }, site.title));
  section.append(grid.scroller);
  g.sites.append(section);
  setTabStop(grid, grid.cells.find((row) => row.length)?.[0] ?? grid.rowHeads[0]);
  return grid;
}

const isHead = (place) => place.label !== undefined;

function at(grid, r, c) {
  if (r < 0) return grid.columnHeads[c];
  return c < 0 ? grid.rowHeads[r] : grid.cells[r]?.[c];
}

function placeOf(g, target) {
  const button = target?.closest?.("button[data-grid]");
  return button ? at(g.grids[button.dataset.grid], Number(button.dataset.r), Number(button.dataset.c)) : undefined;
}

function setTabStop(grid, place) {
  grid.tab?.button.setAttribute("tabindex", "-1");
  grid.tab = place;
  place.button.setAttribute("tabindex", "0");
}

function paintAll(g) {
  for (const cell of g.byLabel.values()) paintCell(g, cell);
  g.grids.forEach((grid) => paintHeaders(g, grid));
}

function paintCell(g, cell) {
  const text = cell.grid.site.text[cell.r][cell.c];
  const off = cell.gone || g.off.has(cell.label);
  const pending = text === null && !cell.gone;
  const name = `${cell.label}, ${cell.gone ? "gone" : (text ?? "pending")}, ${off ? "off" : "on"}`;
  const mark = cell.gone ? undefined : g.data.marks?.legend[g.data.marks.of[cell.label]];
  paintMark(cell, mark);
  const scored = text === null || cell.gone ? "" : colourOf(Number(text), g.data.scale, g.dark);
  const colour = mark ? markColour(mark.colour, g.dark) : scored;
  if (cell.name !== name) {
    cell.name = name;
    cell.button.setAttribute("aria-label", name);
    setAttribute(cell.button, "aria-pressed", String(off));
    cell.button.classList.toggle("hl-off", off && !cell.gone);
    cell.button.classList.toggle("hl-pending", pending);
  }
  if (cell.colour !== colour) {
    cell.colour = colour;
    if (colour) cell.button.style.setProperty("--hl-colour", colour);
    else cell.button.style.removeProperty("--hl-colour");
  }
}

// A letter for what a head is; its accessible name stays label, score, state, and the mark becomes its description.
function paintMark(cell, mark) {
  if (cell.mark === mark?.title) return;
  cell.mark = mark?.title;
  if (mark) {
    cell.button.dataset.mark = mark.letter;
    cell.button.setAttribute("aria-description", mark.title);
  } else {
    delete cell.button.dataset.mark;
    cell.button.removeAttribute("aria-description");
  }
}

function paintHeaders(g, grid) {
  const describe = (place, word, cells) => {
    const left = cells.filter((cell) => !cell.gone);
    const off = left.filter((cell) => g.off.has(cell.label)).length;
    setAttribute(place.button, "aria-label", `${word}, ${off} of ${left.length} off`);
    place.button.classList.toggle("hl-all-off", left.length > 0 && off === left.length);
  };
  grid.rowHeads.forEach((place) => describe(place, `Layer ${place.r}`, lineOf(place)));
  const word = grid.site.letter === "H" ? "Head" : "Group";
  grid.columnHeads.forEach((place) => describe(place, `${word} ${place.c}`, lineOf(place)));
}

// The heads that a row or column header stands for, gone ones included.
function lineOf(place) {
  if (place.c < 0) return place.grid.cells[place.r];
  return place.grid.cells.filter((row) => row.length > place.c).map((row) => row[place.c]);
}

// Cell size from the room there is: fingers get 24 px and a sideways scroll, a mouse gets down to 14 px.
function layOut(g) {
  const width = g.root.clientWidth;
  if (!width || !g.data) return;
  const coarse = matchMedia("(pointer: coarse)").matches || window.innerWidth <= 480;
  const [least, label, between] = [coarse ? 24 : 14, 34, 28];
  const columns = g.data.grids.map((s) => s.columns);
  const rows = Math.max(...g.data.grids.map((s) => s.heads.length));
  const beside = (width - columns.length * (label + 6) - (columns.length - 1) * between) / columns.reduce((a, b) => a + b);
  const stacked = (width - label - 6) / Math.max(...columns);
  const pitch = Math.floor(beside >= Math.max(least, 18) ? beside : stacked);
  const gap = pitch >= 20 ? 2 : 1;
  const cellWidth = Math.max(least, Math.min(36, pitch - gap));
  const wanted = Math.floor(((g.data.height ?? 680) - 30) / rows) - gap;
  const cellHeight = Math.max(least, Math.min(28, cellWidth, wanted));
  g.root.style.setProperty("--hl-width", `${cellWidth}px`);
  g.root.style.setProperty("--hl-height", `${cellHeight}px`);
  g.root.style.setProperty("--hl-gap", `${gap}px`);
  g.root.classList.toggle("hl-small", cellWidth < 24);
  g.root.classList.toggle("hl-coarse", coarse);
  for (const { scroller } of g.grids) {
    scroller.classList.toggle("hl-wide", scroller.scrollWidth > scroller.clientWidth + 1);
  }
}
