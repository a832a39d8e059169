// Called when the page is drawn, and again when the theme changes (by the system's setting or in Streamlit's menu).
export default function themeWatch({ data, parentElement, setTriggerValue }) {
  const now = isDark(parentElement) ? "dark" : "light";
  if (now === data.drawn) parentElement.asked = null;
  else if (parentElement.asked !== now) {
    parentElement.asked = now; // once a change: a server that says otherwise is not asked for ever
    setTriggerValue("changed", now);
  }
}
