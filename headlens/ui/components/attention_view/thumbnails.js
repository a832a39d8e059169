// All heads of the layer as small maps; each is a button that makes its head the large one.

class Thumbnails {
  constructor(view) {
    this.view = view;
    this.node = element("div", "av-thumbnails", { role: "group", "aria-label": "Heads of this layer" });
    this.node.addEventListener("keydown", (event) => this.key(event));
  }

  update() {
    const { data, index } = this.view;
    this.node.hidden = data.heads.length < 2;
    if (this.node.hidden) return;
    const names = JSON.stringify(data.heads);
    if (names !== this.names) {
      this.names = names;
      const focused = this.buttons?.includes(this.node.getRootNode().activeElement);
      this.buttons = data.heads.map((head, place) => this.button(head, place));
      this.node.replaceChildren(...this.buttons);
      if (focused) this.buttons[index].focus();
    }
    this.buttons.forEach((button, place) => {
      button.tabIndex = place === index ? 0 : -1;
      button.setAttribute("aria-pressed", String(place === index));
    });
    this.paint();
  }

  button(head, place) {
    const name = element("span", "av-thumb-name", {}, head.label);
    const role = element("span", "av-thumb-role");
    role.textContent = head.role;
    return element(
      "button", "av-thumb",
      { type: "button", "aria-label": head.role ? `${head.label}, ${head.role}` : `${head.label},`, title: head.role, onclick: () => this.view.choose(place) },
      element("canvas", "av-thumb-map"), name, role,
    );
  }

  // Drawn anew only for other data, another theme, the choice to hide the first token, or another query patch.
  paint() {
    const { view } = this;
    const { data, colours, hidden } = view;
    const now = [data, colours, hidden, data.view === "picture" ? view.body.query : null];
    if (this.drawn?.every((value, i) => value === now[i])) return;
    this.drawn = now;
    this.buttons.forEach((button, place) => {
      const canvas = button.querySelector("canvas");
      const whole = view.full.get(place);
      const small = data.small[place]?.[hidden ? 1 : 0];
      const image = whole ? this.image(whole) : this.smallImage(small);
      canvas.width = image.width;
      canvas.height = image.height;
      canvas.getContext("2d").drawImage(image, 0, 0);
    });
  }

  // Of a head whose weights have not been sent whole: its blocks' maxima.
  smallImage({ data: text, shape }) {
    const { data, colours } = this.view;
    const [queries, keys] = data.shape;
    const shift = data.start[0] - data.start[1];
    const unseen = (r, c) => (c * keys) / shape[1] > ((r + 1) * queries) / shape[0] - 1 + shift;
    return pooledImage(decodeWeights(text), shape, colours, 0, data.causal ? unseen : undefined);
  }

  // Over a picture, what the chosen query sees with this head; else the head's whole map.
  image(whole) {
    const { data, colours, hidden } = this.view;
    const first = hidden ? 1 : 0;
    if (data.view === "picture") {
      const { rows, columns, prefix } = data.picture;
      const from = this.view.body.query * data.shape[1];
      return pooledImage(whole.subarray(from + prefix, from + data.shape[1]), [rows, columns], colours, 0);
    }
    const shift = data.start[0] - data.start[1];
    return pooledImage(whole, data.shape, colours, first, data.causal ? (q, k) => k > q + shift : undefined);
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    if (step[0]) {
      this.view.stepHead(step[0]);
      this.buttons[this.view.index].focus();
    } else this.view.stepLayer(step[1]);
  }
}
