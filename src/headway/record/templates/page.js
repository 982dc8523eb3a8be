"use strict";
// What the scripts of all pages share; each is put behind this one.
const page = (() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 640;
  // Plotly reads a few HTML tags in texts; names are shown as they are.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const title = (text) => ({ text, standoff: 4, font: { size: 12, color: css("--quiet") } });
  const placesOf = (names) => names.map((_, place) => place);
  const at = (list, place) => list[place % list.length];

  // Paul Tol's "bright" scheme, told apart with any common colour blindness; dashes and symbols tell more apart.
  const BRIGHT = ["#4477AA", "#EE6677", "#228833", "#AA3377", "#66CCEE", "#CCBB44", "#9A9A9A"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "cross", "star", "hexagon", "pentagon"];
  const MODE_COLOURS = { serial: "#88AACC", fused: "#44AA99", pipeline: "#117733", split: "#CCBB66" };

  function layout(changes) {
    const axis = { gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false, automargin: true };
    const base = {
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow() ? 11 : 12.5, color: css("--ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 48, r: 24, t: 8, b: 40 },
      hoverlabel: { bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: css("--ink") } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      ...changes,
    };
    base.xaxis = { ...axis, ...changes.xaxis };
    base.yaxis = { ...axis, ...changes.yaxis };
    return base;
  }

  return { css, narrow, plain, title, placesOf, at, BRIGHT, DASHES, SYMBOLS, MODE_COLOURS, layout };
})();
