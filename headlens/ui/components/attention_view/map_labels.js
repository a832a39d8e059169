// Token labels along the map: DOM text of the visible rows and columns, or position numbers where cells are too small.

const SLANT_CELL = 16;
const LABEL_FONT = 12;
const TICK_GUTTER = 34;

class MapLabels {
  constructor() {
    this.corner = element("div", "av-corner", { "aria-hidden": "true" });
    this.columns = element("div", "av-columns", { "aria-hidden": "true" });
    this.rows = element("div", "av-rows", { "aria-hidden": "true" });
    this.overhang = 0;
  }

  // Space the labels want, in pixels: at the left, above, and to the right of slanted ones.
  measure(data, width) {
    const context = element("canvas").getContext("2d");
    const family = getComputedStyle(this.rows).fontFamily || "sans-serif";
    context.font = `${LABEL_FONT}px ${family}`;
    const longest = (tokens) => tokens.text.reduce((most, text) => Math.max(most, context.measureText(text.slice(0, 24)).width), 0) + 14;
    const most = width < 500 ? 72 : 120;
    const key = Math.min(most, longest(data.key));
    return { gutter: Math.ceil(Math.max(54, Math.min(most, longest(data.query)))), key: Math.ceil(key), overhang: Math.ceil(key * 0.71) };
  }

  // Chooses the way of labelling for a cell size; returns the width of the row labels.
  layout(cell, wanted) {
    this.cell = cell;
    this.named = cell >= LABEL_CELL;
    this.slanted = cell >= SLANT_CELL;
    this.overhang = this.named && this.slanted ? wanted.overhang : 0;
    this.length = wanted.key;
    const gutter = this.named ? wanted.gutter : TICK_GUTTER;
    const height = !this.named ? 18 : this.slanted ? wanted.key * 0.71 + 14 : wanted.key;
    this.corner.style.width = this.rows.style.width = `${gutter}px`;
    this.corner.style.height = this.columns.style.height = `${Math.ceil(height)}px`;
    this.corner.replaceChildren(...(height >= 30 ? [element("span", "", {}, "key →"), element("span", "", {}, "query ↓")] : []));
    return gutter;
  }

  paint(data, cell, x, y, width, height, at) {
    const [queries, keys] = data.shape;
    this.fill(this.rows, data.query, queries, y, height, at?.[0], data.start[0], (node, index) => {
      node.style.top = `${index * cell - y}px`;
    });
    this.fill(this.columns, data.key, keys, x, width, at?.[1], data.start[1], (node, index) => {
      node.style.left = `${(index + 0.5) * cell - x}px`;
    });
    this.columns.classList.toggle("av-slanted", this.slanted);
    this.columns.classList.toggle("av-upright", !this.named);
    this.rows.classList.toggle("av-upright", !this.named);
  }

  fill(parent, tokens, count, from, size, hot, start, place) {
    const { cell } = this;
    const every = this.named ? 1 : this.tickStep(cell);
    const nodes = [];
    const first = Math.max(0, Math.floor(from / cell)), last = Math.min(count - 1, Math.ceil((from + size) / cell) - 1);
    for (let index = first; index <= last; index++) {
      const tick = (start + index) % every === 0;
      if (!tick && index !== hot) continue;
      if (!this.named && index !== hot && hot !== undefined && Math.abs(index - hot) * cell < 26) continue;
      const node = element("span", "av-label" + (index === hot ? " av-hot" : ""), { "data-index": index });
      node.append(this.named ? tokenNode(tokens, index) : String(start + index));
      if (this.named) node.title = tokens.text[index];
      place(node, index);
      nodes.push(node);
    }
    parent.style.setProperty("--av-cell", `${cell}px`);
    parent.style.setProperty("--av-font", `${this.named ? Math.min(LABEL_FONT, cell) : 10}px`);
    parent.style.setProperty("--av-length", `${this.length - 4}px`);
    parent.replaceChildren(...nodes);
  }

  tickStep(cell) {
    return [5, 10, 20, 50, 100].find((step) => step * cell >= 36) ?? 200;
  }
}
