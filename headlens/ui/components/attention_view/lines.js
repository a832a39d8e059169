// Lines between two token columns, queries left and keys right.

const ROW = 15;
const LINES_HEIGHT = 480;
const BUCKETS = 8;
const FAINTEST = 8 / 255;

class AttentionLines {
  constructor(view) {
    this.view = view;
    this.hover = null; // {side: "query" | "key", index}
    this.locked = null;
    this.canvas = element("canvas", "av-canvas");
    this.middle = element("div", "av-middle", {}, this.canvas);
    this.columns = {
      query: element("div", "av-tokens av-left", { role: "group", "aria-label": "Query tokens" }),
      key: element("div", "av-tokens av-right", { role: "group", "aria-label": "Key tokens" }),
    };
    this.box = element("div", "av-scroll av-lines-box", {}, this.columns.query, this.middle, this.columns.key);
    this.lockText = element("span", "");
    this.unlock = element("button", "av-button", { type: "button", onclick: () => this.setLock(null) }, "Release");
    this.bar = element("div", "av-bar", {}, this.lockText, this.unlock);
    this.heading = element("div", "av-lines-head", { "aria-hidden": "true" }, element("span", "", {}, "query"), element("span", "", {}, "key"));
    this.node = element("div", "av-lines", {}, this.bar, this.heading, this.box);
    this.box.addEventListener("scroll", () => this.paint());
    this.box.addEventListener("pointerleave", () => this.look(null));
    this.node.addEventListener("keydown", (event) => this.key(event));
  }

  get shown() { return this.locked ?? this.hover; }

  update() {
    const { data } = this.view;
    const identity = JSON.stringify([data.query.text, data.key.text, data.start]);
    if (identity !== this.identity) {
      this.identity = identity;
      this.hover = this.locked = null;
      this.looks = new WeakMap();
      this.longest = this.measure(data);
      this.rows = { query: this.build("query", data.query), key: this.build("key", data.key) };
    }
    this.layout();
    this.refresh();
  }

  layout() {
    const [queries, keys] = this.view.data.shape;
    const width = this.view.width;
    this.box.style.height = `${Math.min(LINES_HEIGHT, Math.max(queries, keys) * ROW) + 2}px`;
    // 58 px: the weight, the space mark and the paddings.
    const side = Math.round(Math.max(90, Math.min(190, width * 0.34, this.longest + 58)));
    const scrolls = Math.max(queries, keys) * ROW > LINES_HEIGHT;
    this.node.style.setProperty("--av-side", `${side}px`);
    this.middleWidth = Math.max(60, Math.min(420, width - 2 * side - 16));
    this.box.style.width = this.heading.style.width = `${2 * side + this.middleWidth + (scrolls ? 14 : 2)}px`;
  }

  // Width of the longest token, in pixels.
  measure({ query, key }) {
    const context = element("canvas").getContext("2d");
    context.font = `12px ${getComputedStyle(this.node).fontFamily || "sans-serif"}`;
    return Math.max(...[...query.text, ...key.text].map((text) => context.measureText(text.slice(0, 40)).width));
  }

  build(side, tokens) {
    const start = this.view.data.start[side === "query" ? 0 : 1];
    const rows = tokens.text.map((_, index) => {
      const value = element("span", "av-value", { "aria-hidden": "true" });
      const row = element(
        "button", "av-row",
        { type: "button", tabindex: index === 0 && side === "query" ? 0 : -1, "aria-pressed": "false", "data-index": index, "aria-label": `${side} ${spoken(tokens, index, start)}` },
        tokenNode(tokens, index), value,
      );
      row.title = tokens.note[index];
      row.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.look({ side, index }));
      row.addEventListener("focus", () => row.matches(":focus-visible") && this.look({ side, index }, true));
      row.addEventListener("click", () => this.toggle({ side, index }));
      return row;
    });
    this.columns[side].replaceChildren(...rows);
    return rows;
  }

  same(a, b) { return a !== null && b !== null && a.side === b.side && a.index === b.index; }

  look(place, say = false) {
    this.hover = place;
    this.refresh();
    if (say && place) this.view.announce(this.words(place));
  }

  toggle(place) {
    this.setLock(this.same(this.locked, place) ? null : place);
  }

  setLock(place) {
    this.locked = place;
    this.hover = place;
    this.refresh();
    this.view.announce(place ? `locked: ${this.words(place)}` : "released");
  }

  key(event) {
    const at = event.target.closest?.(".av-row");
    if (event.key === "Escape" && (this.locked || this.hover)) this.setLock(null);
    else if (at) {
      const side = this.columns.query.contains(at) ? "query" : "key";
      const index = Number(at.dataset.index), last = this.rows[side].length - 1;
      const other = side === "query" ? "key" : "query";
      const target = {
        ArrowUp: [side, index - 1], ArrowDown: [side, index + 1], Home: [side, 0], End: [side, last],
        PageUp: [side, index - 20], PageDown: [side, index + 20],
        ArrowLeft: ["query", side === "query" ? index : Math.min(index, this.rows[other].length - 1)],
        ArrowRight: ["key", side === "key" ? index : Math.min(index, this.rows[other].length - 1)],
      }[event.key];
      if (!target) return;
      const rows = this.rows[target[0]];
      const next = rows[Math.min(rows.length - 1, Math.max(0, target[1]))];
      at.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else return;
    event.preventDefault();
  }

  // [[other side's index, weight]] of a token, all that is not nothing.
  partners({ side, index }) {
    const { pattern } = this.view;
    const count = side === "query" ? pattern.keys : pattern.queries;
    const out = [];
    for (let i = 0; i < count; i++) {
      const [q, k] = side === "query" ? [index, i] : [i, index];
      if (k >= pattern.firstKey && pattern.weight(q, k) > 0 && !pattern.unseen(q, k)) out.push([i, pattern.weight(q, k)]);
    }
    return out;
  }

  words(place) {
    const { data } = this.view;
    const forward = place.side === "query";
    const [mine, theirs, a, b] = forward ? [data.query, data.key, ...data.start] : [data.key, data.query, data.start[1], data.start[0]];
    const top = this.partners(place).sort((x, y) => y[1] - x[1]).slice(0, 3).map(([i, w]) => `${spoken(theirs, i, b)} ${number(w)}`);
    const verb = forward ? "attends most to" : "is attended to most by";
    return `${place.side} ${spoken(mine, place.index, a)} ${verb} ${top.join(", ") || "nothing shown"}`;
  }

  // Numbers and shading beside the tokens, the status line, and the lines.
  refresh() {
    const { shown, locked } = this;
    const values = shown ? new Map(this.partners(shown)) : new Map();
    for (const side of ["query", "key"]) {
      const answers = shown !== null && shown.side !== side;
      this.rows[side].forEach((row, index) => {
        const weight = answers ? values.get(index) : undefined;
        const text = weight !== undefined && weight >= 0.01 ? weight.toFixed(2) : "";
        const share = weight === undefined ? "0%" : `${Math.round(100 * weight)}%`;
        const hot = this.same(shown, { side, index }), kept = this.same(locked, { side, index });
        const hidden = side === "key" && index < this.view.pattern.firstKey;
        // Hundreds of rows: only those whose looks change are touched.
        const looks = `${text} ${share} ${hot} ${kept} ${hidden}`;
        if (this.looks.get(row) === looks) return;
        this.looks.set(row, looks);
        row.lastChild.textContent = text;
        row.style.setProperty("--av-share", share);
        row.classList.toggle("av-hot", hot);
        row.classList.toggle("av-hidden", hidden);
        row.setAttribute("aria-pressed", String(kept));
      });
    }
    this.unlock.hidden = locked === null;
    this.lockText.textContent = locked
      ? `Locked on ${this.words(locked)}. Click it again or press Escape to release.`
      : shown ? `${this.words(shown)}.` : "Point at a token to see only its lines; click to keep them.";
    this.paint();
  }

  paint() {
    const { view, shown } = this;
    const { pattern } = view;
    const height = this.box.clientHeight, scroll = this.box.scrollTop;
    const context = sized(this.canvas, this.middleWidth, height);
    const buckets = Array.from({ length: BUCKETS }, () => []);
    // On its own, a token shows all its lines; together, only those that can be seen at all.
    const add = (q, k, weight) => {
      const level = shown ? Math.sqrt(weight) : weight / (pattern.top || 1);
      buckets[Math.min(BUCKETS - 1, Math.floor(level * BUCKETS))].push([q * ROW + ROW / 2 - scroll, k * ROW + ROW / 2 - scroll]);
    };
    if (shown) for (const [i, w] of this.partners(shown)) add(...(shown.side === "query" ? [shown.index, i, w] : [i, shown.index, w]));
    else {
      for (let q = 0; q < pattern.queries; q++) {
        for (let k = pattern.firstKey; k < pattern.keys; k++) {
          const weight = pattern.weight(q, k);
          if (weight > FAINTEST) add(q, k, weight);
        }
      }
    }
    this.canvas.dataset.lines = buckets.reduce((sum, lines) => sum + lines.length, 0);
    const many = Number(this.canvas.dataset.lines) > 2500, width = this.middleWidth;
    context.strokeStyle = view.theme.line;
    context.lineWidth = shown ? 1.6 : 1.1;
    buckets.forEach((lines, bucket) => {
      context.globalAlpha = (bucket + 0.7) / BUCKETS;
      context.beginPath();
      for (const [left, right] of lines) {
        if ((left < 0 && right < 0) || (left > height && right > height)) continue;
        context.moveTo(2, left);
        if (many) context.lineTo(width - 2, right);
        else context.bezierCurveTo(width * 0.45, left, width * 0.55, right, width - 2, right);
      }
      context.stroke();
    });
  }
}
