// Attention weights as the figure reads them: decoding, hiding the first token, scaling, numbers in words.

const LEVELS = 65535;

function decodeWeights(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Uint16Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true));
}

const decodeFull = (entries) => new Map(Object.entries(entries).map(([i, text]) => [Number(i), decodeWeights(text)]));

// "0.812"; what is not nothing but would read 0.000 says so.
function number(weight) {
  if (weight > 0 && weight < 0.0005) return "<0.001";
  return weight.toFixed(3);
}

const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.095 ? 1 : 0)} %`;

// One head's pattern with the choices that change how it is drawn. `hidden`: the first key's column is left out.
class Pattern {
  constructor(values, data, hidden) {
    [this.queries, this.keys] = data.shape;
    this.values = values;
    this.causal = data.causal;
    this.shift = data.start[0] - data.start[1];
    this.scale = data.scale;
    this.firstKey = hidden ? 1 : 0;
    const tops = new Float32Array(this.queries);
    for (let q = 0; q < this.queries; q++) {
      for (let k = this.firstKey; k < this.keys; k++) tops[q] = Math.max(tops[q], this.values[q * this.keys + k]);
    }
    this.rowTops = tops.map((v) => v / LEVELS);
    this.top = this.rowTops.reduce((a, b) => Math.max(a, b), 0);
  }

  weight(q, k) { return this.values[q * this.keys + k] / LEVELS; }

  // A later position that a causal query cannot see.
  unseen(q, k) { return this.causal && k > q + this.shift; }

  // Where the weight lies on the colour ramp, 0 to 1.
  level(q, k) {
    const top = this.scale === "row" ? this.rowTops[q] : this.top;
    if (k < this.firstKey || top === 0) return 0;
    const share = this.weight(q, k) / top;
    return this.scale === "sqrt" ? Math.sqrt(share) : share;
  }

  // The keys that query q attends to most, [key, weight], strongest first.
  strongest(q, count) {
    const keys = [];
    for (let k = this.firstKey; k < this.keys; k++) if (!this.unseen(q, k)) keys.push([k, this.weight(q, k)]);
    return keys.sort((a, b) => b[1] - a[1]).slice(0, count).filter(([, w]) => w >= 0.0005);
  }

  // Mean share of the first key over the queries that could look elsewhere too.
  firstShare() {
    let sum = 0, count = 0;
    for (let q = 0; q < this.queries; q++) {
      if (this.keys > 1 && this.unseen(q, 1)) continue;
      sum += this.weight(q, 0);
      count++;
    }
    return count ? sum / count : 0;
  }
}

// [r, g, b] of every step of the ramp of this theme.
function rampBytes(dark) {
  return ramp("sequential", dark).map((css) => css.match(/\d+/g).map(Number));
}

// A canvas with one pixel a cell. Cells that cannot be seen or are hidden stay transparent.
function patternImage(pattern, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = pattern.keys;
  canvas.height = pattern.queries;
  const context = canvas.getContext("2d");
  const image = context.createImageData(pattern.keys, pattern.queries);
  for (let q = 0, at = 0; q < pattern.queries; q++) {
    for (let k = 0; k < pattern.keys; k++, at += 4) {
      if (k < pattern.firstKey || pattern.unseen(q, k)) continue;
      const [r, g, b] = colours[Math.round(pattern.level(q, k) * (colours.length - 1))];
      image.data[at] = r;
      image.data[at + 1] = g;
      image.data[at + 2] = b;
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// A thumbnail's pixels: blocks' maxima of a whole pattern, so that one bright column stays visible.
// `unseen(r, c)` says which cells stay empty.
function pooledImage(values, [rows, columns], colours, firstColumn, unseen = () => false) {
  const side = 64, height = Math.min(side, rows), width = Math.min(side, columns);
  const cells = new Float32Array(height * width).fill(-1);
  let top = 0;
  for (let r = 0; r < rows; r++) {
    const y = Math.floor((r * height) / rows) * width;
    for (let c = firstColumn; c < columns; c++) {
      if (unseen(r, c)) break; // later positions follow
      const at = y + Math.floor((c * width) / columns);
      const value = values[r * columns + c];
      if (value > cells[at]) cells[at] = value;
      if (value > top) top = value;
    }
  }
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < cells.length; i++) {
    if (cells[i] < 0) continue;
    image.data.set(colours[Math.round(Math.sqrt(top ? cells[i] / top : 0) * (colours.length - 1))], 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
