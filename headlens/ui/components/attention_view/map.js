// The token x token map: a canvas of the visible part only, inside a scroll box as large as the whole map.

const CELL_SIZES = [2, 3, 4, 6, 9, 12, 16, 20, 24, 28];
const LABEL_CELL = 9;
const MAP_HEIGHT = 560;

class AttentionMap {
  constructor(view) {
    this.view = view;
    this.cursor = null;
    this.zoom = 0;
    this.canvas = element("canvas", "av-canvas");
    this.spacer = element("div", "av-spacer", {}, this.canvas);
    this.box = element("div", "av-scroll", { tabindex: "0", role: "application", "aria-roledescription": "attention map" }, this.spacer);
    this.labels = new MapLabels();
    this.node = element("div", "av-map", {}, this.labels.corner, this.labels.columns, this.labels.rows, this.box);
    this.box.addEventListener("scroll", () => this.paint());
    this.box.addEventListener("pointermove", (event) => this.point(event));
    this.box.addEventListener("pointerdown", (event) => this.press(event));
    this.box.addEventListener("pointerleave", () => this.leave());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.box.matches(":focus-visible") && this.moveTo(...(this.cursor ?? [0, 0])));
    this.box.addEventListener("blur", () => { this.view.tip.hide(); });
  }

  // New data, head, theme or width.
  update() {
    const { data, pattern } = this.view;
    const [queries, keys] = data.shape;
    if (this.cursor && (this.cursor[0] >= queries || this.cursor[1] >= keys)) this.cursor = null;
    this.hover = null;
    this.image = patternImage(pattern, this.view.colours);
    this.box.setAttribute("aria-label", `Attention map of ${this.view.head.label}, ${queries} query tokens down, ${keys} key tokens across; arrow keys move from cell to cell`);
    this.layout();
    this.paint();
  }

  layout() {
    const [queries, keys] = this.view.data.shape;
    const width = this.view.width;
    const fit = (gutter) => Math.floor((width - gutter) / keys);
    const labelled = this.labels.measure(this.view.data, width);
    const byWidth = fit(labelled.gutter + labelled.overhang) >= LABEL_CELL ? fit(labelled.gutter + labelled.overhang) : Math.min(LABEL_CELL - 1, fit(TICK_GUTTER));
    // The whole map first, if cells of 2 px allow it; names of the tokens are one click on + away.
    this.cell = Math.min(28, Math.max(2, Math.min(byWidth, Math.floor(MAP_HEIGHT / queries))));
    if (this.zoom) this.cell = CELL_SIZES[Math.min(CELL_SIZES.length - 1, Math.max(0, this.nearestSize(this.cell) + this.zoom))];
    const gutter = this.labels.layout(this.cell, labelled);
    this.viewWidth = Math.min(width - gutter - (this.cell >= LABEL_CELL ? this.labels.overhang : 0), keys * this.cell);
    this.viewHeight = Math.min(MAP_HEIGHT, queries * this.cell);
    this.spacer.style.width = `${keys * this.cell}px`;
    this.spacer.style.height = `${queries * this.cell}px`;
    // Room for the scroll bars, so that they do not cover cells.
    const [barX, barY] = [keys * this.cell > this.viewWidth ? 12 : 0, queries * this.cell > this.viewHeight ? 12 : 0];
    this.box.style.width = `${Math.min(this.viewWidth + barY, width - gutter)}px`;
    this.box.style.height = `${this.viewHeight + barX}px`;
    this.labels.columns.style.width = `${this.viewWidth + this.labels.overhang}px`;
    this.labels.rows.style.height = `${this.viewHeight}px`;
  }

  nearestSize(cell) {
    return CELL_SIZES.findLastIndex((size) => size <= cell);
  }

  zoomBy(step) {
    const centre = [(this.box.scrollLeft + this.viewWidth / 2) / this.cell, (this.box.scrollTop + this.viewHeight / 2) / this.cell];
    this.zoom += step;
    const before = this.cell;
    this.layout();
    if (this.cell === before) this.zoom -= step;
    this.box.scrollLeft = centre[0] * this.cell - this.viewWidth / 2;
    this.box.scrollTop = centre[1] * this.cell - this.viewHeight / 2;
    this.paint();
  }

  paint() {
    const { cell, viewWidth, viewHeight, box, view } = this;
    const context = sized(this.canvas, viewWidth, viewHeight);
    const [x, y] = [box.scrollLeft, box.scrollTop];
    const [queries, keys] = view.data.shape;
    context.save();
    context.translate(-x, -y);
    context.imageSmoothingEnabled = false;
    if (view.pattern.firstKey) this.hatch(context, cell, queries * cell);
    context.drawImage(this.image, 0, 0, keys * cell, queries * cell);
    if (cell >= 12) this.gaps(context, x, y);
    const at = this.hover ?? this.cursor;
    if (at) this.mark(context, at);
    context.restore();
    this.labels.paint(view.data, cell, x, y, viewWidth, viewHeight, at);
  }

  gaps(context, x, y) {
    const { cell, viewWidth, viewHeight } = this;
    context.fillStyle = this.view.theme.back;
    for (let at = Math.floor(x / cell) * cell; at <= x + viewWidth; at += cell) context.fillRect(at - 0.5, y, 1, viewHeight);
    for (let at = Math.floor(y / cell) * cell; at <= y + viewHeight; at += cell) context.fillRect(x, at - 0.5, viewWidth, 1);
  }

  // The hidden first column: diagonal strokes, not a colour of the scale.
  hatch(context, width, height) {
    context.save();
    context.beginPath();
    context.rect(0, 0, width, height);
    context.clip();
    context.strokeStyle = this.view.theme.faint;
    context.beginPath();
    for (let at = -width; at < height; at += 5) {
      context.moveTo(0, at + width);
      context.lineTo(width, at);
    }
    context.stroke();
    context.restore();
  }

  mark(context, [q, k]) {
    const { cell } = this;
    const [queries, keys] = this.view.data.shape;
    context.strokeStyle = this.view.theme.mark;
    context.globalAlpha = 0.35;
    context.strokeRect(-1, q * cell - 0.5, keys * cell + 2, cell + 1);
    context.strokeRect(k * cell - 0.5, -1, cell + 1, queries * cell + 2);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(k * cell - 1, q * cell - 1, cell + 2, cell + 2);
  }

  cellAt(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [queries, keys] = this.view.data.shape;
    const k = Math.floor((event.clientX - left + this.box.scrollLeft) / this.cell);
    const q = Math.floor((event.clientY - top + this.box.scrollTop) / this.cell);
    const inside = event.clientX - left < this.viewWidth && event.clientY - top < this.viewHeight;
    return inside && q >= 0 && k >= 0 && q < queries && k < keys ? [q, k] : null;
  }

  point(event) {
    this.hover = this.cellAt(event);
    if (!this.hover) return this.leave();
    this.paint();
    this.tell(this.hover, event.clientX, event.clientY);
  }

  press(event) {
    const at = this.cellAt(event);
    if (!at) return;
    this.cursor = at;
    this.point(event);
    this.view.announce(this.words(at));
  }

  leave() {
    this.hover = null;
    this.view.tip.hide();
    this.paint();
  }

  words([q, k]) {
    const { data, pattern } = this.view;
    const [query, key] = [spoken(data.query, q, data.start[0]), spoken(data.key, k, data.start[1])];
    if (pattern.unseen(q, k)) return `query ${query} cannot see ${key}, which comes later`;
    return `query ${query} attends to ${key}: ${number(pattern.weight(q, k))}`;
  }

  tell([q, k], x, y) {
    const { data, pattern } = this.view;
    const weight = pattern.unseen(q, k)
      ? ["comes later: cannot be seen"]
      : [element("span", "av-tip-name", {}, "weight"), element("b", "av-number", {}, number(pattern.weight(q, k)))];
    if (k < pattern.firstKey) weight.push(element("span", "av-muted", {}, " hidden from the colours"));
    this.view.tip.show([tokenLine("query", data.query, q, data.start[0]), tokenLine("key", data.key, k, data.start[1]), weight], x, y);
  }

  moveTo(q, k) {
    const [queries, keys] = this.view.data.shape;
    this.cursor = [Math.min(queries - 1, Math.max(0, q)), Math.min(keys - 1, Math.max(0, k))];
    this.hover = null;
    const { box, cell } = this;
    const reveal = (at, from, size) => (at * cell < from ? at * cell : (at + 1) * cell > from + size ? (at + 1) * cell - size : from);
    box.scrollLeft = reveal(this.cursor[1], box.scrollLeft, this.viewWidth);
    box.scrollTop = reveal(this.cursor[0], box.scrollTop, this.viewHeight);
    this.paint();
    const { left, top } = this.canvas.getBoundingClientRect();
    this.tell(this.cursor, left + (this.cursor[1] + 1) * cell - box.scrollLeft, top + (this.cursor[0] + 1) * cell - box.scrollTop);
    this.view.announce(this.words(this.cursor));
  }

  key(event) {
    const [q, k] = this.cursor ?? [0, 0];
    const [queries, keys] = this.view.data.shape;
    const moves = {
      ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1],
      Home: [event.ctrlKey ? 0 : q, 0], End: [event.ctrlKey ? queries - 1 : q, keys - 1],
      PageUp: [q - 10, k], PageDown: [q + 10, k],
    };
    if (event.key === "Escape") {
      this.cursor = null;
      this.leave();
    } else if (moves[event.key] && !event.altKey && !event.metaKey) this.moveTo(...moves[event.key]);
    else return;
    event.preventDefault();
  }
}
