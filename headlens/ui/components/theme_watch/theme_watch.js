// Called when the page is drawn, and again when the theme changes (by the system's setting or in Streamlit's menu).
function theme(root) {
  const probe = document.createElement("i");
  probe.style.cssText = "display:none;color:var(--st-background-color,#fff)";
  root.append(probe);
  const [r, g, b] = (getComputedStyle(probe).color.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  probe.remove();
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 128 ? "dark" : "light";
}

export default function themeWatch({ data, parentElement, setTriggerValue }) {
  const now = theme(parentElement);
  if (now === data.drawn) parentElement.asked = null;
  else if (parentElement.asked !== now) {
    parentElement.asked = now; // once a change: a server that says otherwise is not asked for ever
    setTriggerValue("changed", now);
  }
}
