// Entry: called on mount and again for every change of data or theme. All state is kept beside the elements.

let mounted = 0;

function mount(parent) {
  const root = parent.querySelector(".hl-root");
  const g = { root, off: new Set(), active: null, pinned: null, grids: [], byLabel: new Map() };
  g.masks = { seq: 0, ack: null };
  g.pins = { seq: 0, ack: null };
  g.sites = make("div", { class: "hl-sites" });
  g.legend = make("div", { class: "hl-legend" });
  g.hint = make("div", { class: "hl-hint", id: `hl-hint-${++mounted}` });
  g.live = make("div", { class: "hl-live", "aria-live": "polite", "aria-atomic": "true" });
  g.tip = make("div", { class: "hl-tip", "aria-hidden": "true", popover: "manual", hidden: "" });
  root.replaceChildren(g.sites, g.legend, g.hint, g.live, g.tip);
  listen(g);
  const resized = new ResizeObserver(() => layOut(g));
  resized.observe(root);
  const scrolled = () => g.tipped && hideTip(g);
  window.addEventListener("scroll", scrolled, { capture: true, passive: true });
  g.unmount = () => {
    resized.disconnect();
    window.removeEventListener("scroll", scrolled, { capture: true });
    clearTimeout(g.lookTimer);
    clearTimeout(g.tipTimer);
    if (g.maskTimer) flushMask(g);
  };
  return g;
}

// Whether the page has seen our newest message of a kind. An ack that went back means a new session: follow it.
function caughtUp(count, ack) {
  const renewed = count.ack === null || ack < count.ack;
  count.ack = ack;
  if (!renewed && ack < count.seq) return false;
  count.seq = ack;
  return true;
}

// The page pins by changing its mind; without a change the user's pin stays.
function adoptPin(g, data, first) {
  if (!caughtUp(g.pins, data.pinAck) || (!first && data.pinned === g.askedPin)) return;
  g.askedPin = data.pinned;
  if (data.pinned !== g.pinned) pin(g, data.pinned, { silent: first });
}

export default function headGrid({ data, parentElement, setStateValue }) {
  const kept = parentElement.headGrid;
  const g = kept?.root.isConnected ? kept : (parentElement.headGrid = mount(parentElement));
  const first = !g.data;
  g.set = setStateValue;
  g.data = data;
  g.dark = isDark(g.root);
  if (caughtUp(g.masks, data.ack)) g.off = new Set(data.off);
  g.root.classList.toggle("hl-dark", g.dark);
  g.root.classList.toggle("hl-switch", data.mode === "switch");
  const built = structure(data);
  if (g.structure !== built) {
    g.structure = built;
    buildAll(g, data);
  } else {
    g.grids.forEach((grid, i) => (grid.site = data.grids[i]));
  }
  paintAll(g);
  adoptPin(g, data, first);
  layOut(g);
  g.hint.textContent = g.root.classList.contains("hl-coarse")
    ? "Tap a head to switch it. Hold, then drag, to paint."
    : "Click or Space switches a head; drag or Shift+arrow paints; Enter pins.";
  showLegend(g);
  showTip(g);
  return g.unmount;
}
