// Score -> colour. Light themes go from pale to dark, dark themes from dim to bright, both evenly in OKLab.
// Blue against orange can be told apart with every common kind of colour blindness.

const STOPS = {
  light: {
    sequential: ["#edf2f8", "#b5d0ea", "#6ba3d6", "#2c6fb3", "#0d3a75"],
    diverging: ["#8f3d00", "#d0721c", "#f2b67c", "#f1efec", "#92bfe4", "#2f77bb", "#0d3a75"],
  },
  dark: {
    sequential: ["#1f2a3a", "#1f4e7f", "#2e7fc2", "#71b7ef", "#d4ecff"],
    diverging: ["#ffdcae", "#f59c3f", "#a65a17", "#2c2f36", "#2467a5", "#5cabec", "#c9e7ff"],
  },
};
const STEPS = 128;

const toLinear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const toGamma = (v) => (v <= 0.0031308 ? v * 12.92 : 1.055 * v ** (1 / 2.4) - 0.055);

function hexToOklab(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => toLinear(parseInt(hex.slice(i, i + 2), 16) / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function oklabToCss([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const bytes = linear.map((v) => Math.round(255 * Math.min(1, Math.max(0, toGamma(Math.max(0, v))))));
  return `rgb(${bytes.join(",")})`;
}

const ramps = new Map();

// STEPS + 1 CSS colours from the first to the last stop.
function ramp(kind, dark) {
  const id = `${kind}${dark}`;
  if (!ramps.has(id)) {
    const stops = STOPS[dark ? "dark" : "light"][kind].map(hexToOklab);
    const colours = Array.from({ length: STEPS + 1 }, (_, step) => {
      const place = (step / STEPS) * (stops.length - 1);
      const left = Math.min(Math.floor(place), stops.length - 2);
      const share = place - left;
      return oklabToCss(stops[left].map((v, i) => v * (1 - share) + stops[left + 1][i] * share));
    });
    ramps.set(id, colours);
  }
  return ramps.get(id);
}

// Where a score lies on the ramp, 0 to 1. A diverging scale keeps 0 in the middle even when its arms differ.
function position(value, scale) {
  const clamped = Math.min(scale.high, Math.max(scale.low, value));
  if (scale.kind === "diverging") {
    return clamped < 0 ? 0.5 - 0.5 * (clamped / scale.low) : 0.5 + 0.5 * (clamped / scale.high);
  }
  return (clamped - scale.low) / (scale.high - scale.low);
}

// What heads are: pale in light themes and deep in dark ones, so that the letter on top can be read.
const MARKS = {
  light: ["#9cc4ec", "#f6bd8b", "#b9e3c6", "#f3a6ad", "#e6d98a", "#c9b6e8", "#8fd7d2", "#e0b3cf", "#c8d97f", "#f2cf63",
    "#a9b8d9", "#d8b08c", "#9fd49b", "#bfc7cf"],
  dark: ["#22568c", "#8a4a12", "#1f6b45", "#8c2f3c", "#6d5f12", "#553f8c", "#13686a", "#7d3a63", "#536616", "#7d5a05",
    "#3c4f80", "#6b4a2c", "#2f6b2c", "#4a545f"],
};
const markColour = (index, dark) => {
  const colours = MARKS[dark ? "dark" : "light"];
  return index < 0 ? (dark ? "#23272e" : "#f3f3f2") : colours[index % colours.length];
};

const colourOf = (value, scale, dark) => ramp(scale.kind, dark)[Math.round(position(value, scale) * STEPS)];

// Whether the page's background is dark; the probe resolves any CSS notation of the theme's colour.
function isDark(root) {
  const probe = document.createElement("i");
  const background = matchMedia("(forced-colors: active)").matches ? "Canvas" : "var(--st-background-color,#fff)";
  probe.style.cssText = `display:none;forced-color-adjust:none;color:${background}`;
  root.append(probe);
  const [r, g, b] = (getComputedStyle(probe).color.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  probe.remove();
  return 0.2126 * r + 0.7152 * g + 0.0722 * b < 128;
}
