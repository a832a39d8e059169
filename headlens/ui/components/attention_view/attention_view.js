// The figure: header, the chosen view, legend, thumbnails; and the messages to and from Python.

const VIEWS = { map: AttentionMap, lines: AttentionLines, picture: AttentionPicture };
const SCALE_WORDS = {
  sqrt: "the square root of the weight",
  row: "the weight as a share of the largest in its row",
  linear: "the weight",
};

class AttentionView {
  constructor(root) {
    this.root = root;
    this.index = 0;
    this.busy = null; // the label that Python was asked for
    this.title = element("div", "av-title", { "aria-live": "off" });
    this.steps = element("div", "av-steps", { role: "group", "aria-label": "Step through heads and layers" });
    this.hide = element("input", "", { type: "checkbox", onchange: () => this.setHidden(this.hide.checked) });
    this.hideLabel = element("label", "av-check", {}, this.hide, "Hide first token");
    this.zoom = element(
      "div", "av-steps", { role: "group", "aria-label": "Size of the cells" },
      element("button", "av-button", { type: "button", "aria-label": "Smaller cells", onclick: () => this.body.zoomBy(-1) }, "−"),
      element("button", "av-button", { type: "button", "aria-label": "Larger cells", onclick: () => this.body.zoomBy(1) }, "+"),
    );
    this.note = element("p", "av-note", { role: "note" });
    this.place = element("div", "av-place");
    this.bar = element("canvas", "av-ramp", { "aria-hidden": "true" });
    this.ticks = element("div", "av-ticks", { "aria-hidden": "true" });
    this.legend = element("div", "av-legend", {}, element("div", "av-scale", {}, this.bar, this.ticks));
    this.caption = element("p", "av-caption");
    this.legend.append(this.caption);
    this.live = element("div", "av-live", { "aria-live": "polite" });
    this.thumbnails = new Thumbnails(this);
    const header = element("div", "av-header", {}, this.title, this.steps, this.zoom, this.hideLabel);
    this.figure = element("div", "av-figure", { role: "figure" }, header, this.note, this.place, this.legend, this.thumbnails.node, this.live);
    root.append(this.figure);
    this.tip = new Tip(this.figure);
    this.resize = new ResizeObserver(() => this.width !== root.clientWidth && this.data && this.draw());
    this.resize.observe(root);
  }

  // A call from Streamlit: new data or another theme.
  receive(data, set) {
    this.set = set;
    const first = this.seq === undefined;
    if (first) this.seq = data.ack;
    if (data !== this.data) {
      this.full = decodeFull(data.full);
      if (first || data.hide_first !== this.data.hide_first) this.hide.checked = data.hide_first;
      const mine = this.target ?? data.heads[data.selected].label;
      const known = data.heads.findIndex((head) => head.label === mine);
      // Python's choice counts only once it has seen our newest one.
      const settled = data.ack >= this.seq;
      this.index = settled || known < 0 ? data.selected : known;
      if (settled) this.target = this.busy = null;
      this.data = data;
    }
    this.draw();
  }

  get head() { return this.data.heads[this.index]; }

  get canHide() { return this.data.view !== "picture" && this.data.start[1] === 0 && this.data.shape[1] > 1; }

  draw() {
    const { data, root } = this;
    this.width = root.clientWidth;
    if (!this.width) return;
    const dark = isDark(root);
    if (dark !== this.dark) {
      this.dark = dark;
      root.classList.toggle("av-dark", dark);
      this.colours = rampBytes(dark);
    }
    this.theme = themeColours(root);
    this.theme.line = ramp("sequential", dark)[dark ? 96 : 84];
    this.hidden = this.canHide && this.hide.checked;
    this.pattern = this.patternOf(this.index);
    if (this.view !== data.view) {
      this.view = data.view;
      this.tip.hide();
      this.body = new VIEWS[data.view](this);
      this.place.replaceChildren(this.body.node);
    }
    this.drawHeader();
    this.body.update();
    this.drawLegend();
    this.thumbnails.update();
    this.figure.setAttribute("aria-busy", String(this.busy !== null));
    this.figure.dataset.painted = this.head.label;
  }

  // The whole pattern, or, until Python has sent it, what its thumbnail holds.
  patternOf(index) {
    const { data } = this;
    if (this.full.has(index)) return new Pattern(this.full.get(index), data, this.hidden);
    const { data: text, shape } = data.small[index][0];
    const small = decodeWeights(text);
    const [queries, keys] = data.shape;
    const blurred = new Uint16Array(queries * keys);
    for (let q = 0; q < queries; q++) {
      for (let k = 0; k < keys; k++) blurred[q * keys + k] = small[Math.floor((q * shape[0]) / queries) * shape[1] + Math.floor((k * shape[1]) / keys)];
    }
    return new Pattern(blurred, data, this.hidden);
  }

  drawHeader() {
    const { data, head } = this;
    this.figure.setAttribute("aria-label", data.summary);
    const role = element("span", "av-muted");
    role.textContent = this.busy ? `loading ${this.busy} …` : head.role;
    this.title.replaceChildren(element("b", "", {}, head.label), role);
    this.note.textContent = data.note;
    this.note.hidden = !data.note;
    this.hideLabel.hidden = !this.canHide;
    this.zoom.hidden = data.view !== "map";
    const layer = data.layers.indexOf(this.standing.layer);
    const wanted = [
      ["Previous head", "◀ head", data.heads.length > 1 && this.index > 0, () => this.stepHead(-1)],
      ["Next head", "head ▶", data.heads.length > 1 && this.index < data.heads.length - 1, () => this.stepHead(1)],
      ["Previous layer", "▲ layer", layer > 0, () => this.stepLayer(-1)],
      ["Next layer", "layer ▼", layer < data.layers.length - 1, () => this.stepLayer(1)],
    ];
    const many = [data.heads.length > 1, data.heads.length > 1, data.layers.length > 1, data.layers.length > 1];
    if (!this.stepButtons) {
      this.stepButtons = wanted.map(([name, text], i) =>
        element("button", "av-button", { type: "button", "aria-label": name, onclick: () => this.stepActions[i]() }, text));
      this.steps.append(...this.stepButtons);
    }
    this.stepActions = wanted.map(([, , , action]) => action);
    this.stepButtons.forEach((button, i) => {
      button.hidden = !many[i];
      // Not the disabled attribute: it would drop the keyboard's focus at the last head.
      button.setAttribute("aria-disabled", String(!wanted[i][2]));
    });
  }

  drawLegend() {
    const { data, pattern } = this;
    const context = sized(this.bar, 140, 9);
    for (let x = 0; x < 140; x++) {
      context.fillStyle = data.view === "picture" ? `rgba(255,176,0,${(OVERLAY * x) / 139})` : `rgb(${this.colours[Math.round((x / 139) * (this.colours.length - 1))]})`;
      context.fillRect(x, 0, 1, 9);
    }
    const top = data.scale === "row" ? null : pattern.top;
    const half = data.scale === "sqrt" ? 0.25 : 0.5;
    const ticks = top === null || data.view === "picture" ? ["0", "", data.view === "picture" ? "strongest patch" : "row's largest"] : ["0", (half * top).toFixed(2), top.toFixed(2)];
    this.ticks.replaceChildren(...ticks.map((text) => element("span", "", {}, text)));
    this.bar.parentNode.hidden = data.view === "lines";
    const what = data.view === "lines"
      ? `The stronger a line, the larger the weight; the strongest here is ${pattern.top.toFixed(2)}. Weights up to 0.03 are drawn only for the token that you point at.`
      : data.view === "picture" ? `Colour: ${SCALE_WORDS[data.scale]}, up to the strongest patch of the query.` : `Colour: ${SCALE_WORDS[data.scale]}.`;
    const unseen = data.causal && data.view === "map" ? " Empty cells: later tokens, which a query cannot see." : "";
    const hidden = this.hidden
      ? ` The first token is hidden: it takes ${percent(pattern.firstShare())} of the attention on average. The other weights stay as they are, ${data.view === "lines" ? "lines" : "colours"} now span what is left.`
      : "";
    this.caption.textContent = what + unseen + hidden;
  }

  announce(text) {
    this.live.textContent = text;
  }

  setHidden(hidden) {
    this.set("hide_first", hidden);
    this.draw();
  }

  // Layer and head where the user is by now, which may still be on its way from Python.
  get standing() {
    const match = this.busy?.match(/L(\d+)H(\d+)$/);
    return match ? { layer: Number(match[1]), head: Number(match[2]) } : this.head;
  }

  report(label) {
    this.target = label;
    this.seq++;
    this.set("head", { label, seq: this.seq });
  }

  choose(index) {
    if (index === this.index && !this.busy) return;
    this.index = index;
    this.busy = this.full.has(index) ? null : this.head.label;
    this.report(this.head.label);
    this.draw();
    this.announce(`${this.head.label}${this.head.role ? `, ${this.head.role}` : ""}`);
  }

  stepHead(step) {
    const { data, standing: place } = this;
    const next = data.heads.findIndex((head) => head.head === place.head) + step;
    if (next < 0 || next >= data.heads.length) return;
    if (place.layer === this.head.layer) this.choose(next);
    else this.ask(place.layer, data.heads[next].head);
  }

  stepLayer(step) {
    const { data, standing: place } = this;
    const layer = data.layers[data.layers.indexOf(place.layer) + step];
    if (layer !== undefined) this.ask(layer, place.head);
  }

  // A head that is not here: Python is told, and the figure says so until the answer arrives.
  ask(layer, number) {
    const here = this.data.heads.findIndex((head) => head.layer === layer && head.head === number);
    if (here >= 0) return this.choose(here);
    const { site } = this.head;
    this.busy = `${site ? `${site}.` : ""}L${layer}H${number}`;
    this.report(this.busy);
    this.drawHeader();
    this.figure.setAttribute("aria-busy", "true");
    this.announce(`loading ${this.busy}`);
  }
}

const views = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let view = views.get(parentElement);
  if (!view) {
    view = new AttentionView(parentElement.querySelector(".hl-root"));
    views.set(parentElement, view);
  }
  view.receive(data, setStateValue);
  return () => {
    view.resize.disconnect();
    view.figure.remove();
    views.delete(parentElement);
  };
}
