// Small DOM tools. User text enters the page through textContent only.

function element(tag, className = "", attributes = {}, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children);
  return node;
}

// A token's text, kept apart from the writing direction around it; `spaced` marks the space before a word.
function tokenNode(tokens, index, spaced = true) {
  const text = element("bdi", tokens.special[index] ? "av-special" : "", { dir: "auto" });
  text.textContent = tokens.text[index];
  if (!spaced || !tokens.space[index]) return text;
  const space = element("span", "av-space", { "aria-hidden": "true" }, "·");
  return element("span", "av-token", {}, space, text);
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

// 'cat' (3): the words by which a token is announced. Right-to-left text is isolated, or it would turn the rest around.
function spoken(tokens, index, start) {
  const text = tokens.text[index];
  return `'${RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text}' (${start + index})`;
}

// A canvas of the given size in CSS pixels, sharp on every screen; returns its context, cleared.
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// CSS colours of the theme as the canvas needs them.
function themeColours(root) {
  const style = getComputedStyle(root);
  const read = (name) => style.getPropertyValue(name).trim();
  return { ink: style.color, back: read("--hl-back"), faint: read("--av-faint"), mark: read("--av-mark") };
}

// The floating box beside the pointer or the cursor; in the top layer, so nothing clips it.
class Tip {
  constructor(root) {
    this.node = element("div", "av-tip", { popover: "manual", role: "tooltip" });
    root.append(this.node);
  }

  // `lines`: arrays of nodes and strings; (x, y) in page coordinates.
  show(lines, x, y) {
    this.node.replaceChildren(...lines.map((parts) => element("div", "", {}, ...parts)));
    if (!this.node.matches(":popover-open")) this.node.showPopover();
    const { width, height } = this.node.getBoundingClientRect();
    const left = x + 14 + width > window.innerWidth ? x - 14 - width : x + 14;
    const top = y + 14 + height > window.innerHeight ? y - 14 - height : y + 14;
    this.node.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  hide() {
    if (this.node.matches(":popover-open")) this.node.hidePopover();
  }
}

// The tooltip's line on one token: its text, position, id and remark.
function tokenLine(name, tokens, index, start) {
  const rest = tokens.id[index] < 0 ? ` #${start + index}` : ` #${start + index} · id ${tokens.id[index]}`;
  const note = tokens.note[index] ? ` · ${tokens.note[index]}` : "";
  const quoted = element("b", "", {}, "“", tokenNode(tokens, index), "”");
  return [element("span", "av-tip-name", {}, name), quoted, element("span", "av-muted", {}, rest + note)];
}
