// A vision model's attention over its picture: the grey picture under one query's weights.

const PICTURE_SIDE = 460;
const OVERLAY = 0.85; // opacity of the strongest patch

class AttentionPicture {
  constructor(view) {
    this.view = view;
    this.query = 0;
    this.hover = null;
    this.image = new Image();
    this.image.addEventListener("load", () => this.view.width && this.paint());
    this.canvas = element("canvas", "av-canvas av-picture", { tabindex: "0", role: "application", "aria-roledescription": "picture patches" });
    this.chips = element("div", "av-chips", { role: "group", "aria-label": "Tokens before the patches" });
    this.words = element("p", "av-words");
    this.node = element("div", "av-picture-box", {}, this.chips, this.canvas, this.words);
    this.canvas.addEventListener("pointermove", (event) => this.look(this.patchAt(event)));
    this.canvas.addEventListener("pointerdown", (event) => this.choose(this.patchAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.look(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.canvas.matches(":focus-visible") && this.choose(Math.max(this.query, this.view.data.picture.prefix)));
  }

  get shown() { return this.hover ?? this.query; }

  update() {
    const { data } = this.view;
    const { png, prefix } = data.picture;
    if (this.image.src !== png) this.image.src = png;
    if (this.query >= data.shape[0]) this.query = 0;
    this.hover = null;
    this.buttons = Array.from({ length: prefix }, (_, index) => {
      const chip = element("button", "av-button av-chip", { type: "button" }, tokenNode(data.query, index), element("span", "av-number"));
      chip.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.look(index));
      chip.addEventListener("pointerleave", () => this.look(null));
      chip.addEventListener("focus", () => chip.matches(":focus-visible") && this.choose(index));
      chip.addEventListener("click", () => this.choose(index));
      return chip;
    });
    this.chips.replaceChildren(...this.buttons);
    this.canvas.setAttribute("aria-label", `Picture of ${data.picture.rows} by ${data.picture.columns} patches under the attention of ${this.view.head.label}; arrow keys choose the query patch`);
    this.paint();
  }

  layout() {}

  paint() {
    const { data, pattern } = this.view;
    const { rows, columns, prefix } = data.picture;
    const patch = Math.max(4, Math.floor(Math.min(PICTURE_SIDE, this.view.width) / Math.max(rows, columns)));
    const [width, height] = [columns * patch, rows * patch];
    this.patch = patch;
    const context = sized(this.canvas, width, height);
    if (this.image.complete && this.image.naturalWidth) {
      context.filter = "grayscale(1) brightness(0.8)";
      context.drawImage(this.image, 0, 0, width, height);
      context.filter = "none";
    }
    const query = this.shown;
    let top = 0;
    for (let k = prefix; k < data.shape[1]; k++) if (k >= pattern.firstKey) top = Math.max(top, pattern.weight(query, k));
    context.fillStyle = "#ffb000";
    for (let k = prefix; k < data.shape[1]; k++) {
      if (top === 0) break;
      const share = pattern.weight(query, k) / top;
      context.globalAlpha = OVERLAY * (data.scale === "sqrt" ? Math.sqrt(share) : share);
      context.fillRect(((k - prefix) % columns) * patch, Math.floor((k - prefix) / columns) * patch, patch, patch);
    }
    context.globalAlpha = 1;
    if (query >= prefix) this.outline(context, query - prefix, columns, patch);
    this.tell(query);
    this.canvas.dataset.query = query;
  }

  outline(context, index, columns, patch) {
    const [x, y] = [(index % columns) * patch, Math.floor(index / columns) * patch];
    for (const [colour, width] of [["#000", 4], ["#fff", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(x + 1, y + 1, patch - 2, patch - 2);
    }
  }

  tell(query) {
    const { data, pattern } = this.view;
    this.buttons.forEach((chip, index) => {
      chip.classList.toggle("av-hot", index === query);
      chip.lastChild.textContent = number(pattern.weight(query, index));
      chip.setAttribute("aria-pressed", String(index === this.query));
      chip.setAttribute("aria-label", `query ${data.query.text[index]}, receives ${number(pattern.weight(query, index))}`);
    });
    this.words.textContent = this.sentence(query);
  }

  sentence(query) {
    const { data, pattern } = this.view;
    const { prefix } = data.picture;
    const patches = pattern.strongest(query, pattern.keys).filter(([k]) => k >= prefix).slice(0, 2).map(([k, w]) => `${data.key.text[k]}: ${number(w)}`);
    const before = Array.from({ length: prefix }, (_, k) => `${data.key.text[k]}: ${number(pattern.weight(query, k))}`);
    return `Query ${data.query.text[query]} attends most to ${[...patches, ...before].join("; ")}.`;
  }

  patchAt(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const { rows, columns, prefix } = this.view.data.picture;
    const [x, y] = [Math.floor((event.clientX - left) / this.patch), Math.floor((event.clientY - top) / this.patch)];
    return x >= 0 && y >= 0 && x < columns && y < rows ? prefix + y * columns + x : null;
  }

  look(query) {
    this.hover = query;
    this.paint();
  }

  choose(query) {
    if (query === null) return;
    this.query = query;
    this.hover = null;
    this.paint();
    this.view.thumbnails.paint();
    this.view.announce(this.sentence(query));
  }

  key(event) {
    const { rows, columns, prefix } = this.view.data.picture;
    const at = Math.max(0, this.query - prefix);
    const [row, column] = [Math.floor(at / columns), at % columns];
    const move = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, columns - 1],
    }[event.key];
    if (!move) return;
    const [r, c] = [Math.min(rows - 1, Math.max(0, move[0])), Math.min(columns - 1, Math.max(0, move[1]))];
    this.choose(prefix + r * columns + c);
    event.preventDefault();
  }
}
