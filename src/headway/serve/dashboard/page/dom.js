// Nodes, words and colours. Whatever the server says becomes text, never markup.

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function put(node, text) {
  const words = String(text);
  if (node.textContent !== words) node.textContent = words;
}

export function set(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export const count = (value) => Math.round(value).toLocaleString("en");

// Latencies and ratios are known to within 5 %: two digits.
export const rough = (value) => (value ? number(Number(value.toPrecision(2))) : number(value));

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 0.001) return "<0.001";
  if (value >= 999.5) return count(value);
  return String(Number(value.toPrecision(3)));
}

// Never rounded up to 100: that stands for all of them.
export function percent(share, digits = 1) {
  if (share === null || share === undefined) return "–";
  const scale = 10 ** digits;
  return `${(Math.floor(share * 100 * scale + 1e-6) / scale).toFixed(share === 1 ? 0 : digits)} %`;
}

export const ENDINGS = [
  ["in_time", "In time"], ["late", "Late"], ["shed", "Shed"], ["expired", "Expired"],
  ["failed", "Failed"], ["rejected", "Rejected"], ["invalid", "Invalid"], ["cancelled", "Cancelled"],
];

const WARM_UP = "headway-warm-up";
export const shownTenant = (name) => (name === WARM_UP ? "warm-up" : name);

// Paul Tol's "bright" scheme, told apart with any common colour blindness; then hues far from each other.
const BRIGHT = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377"];
const colours = new Map();

export function colourOf(tenant) {
  if (tenant === WARM_UP) return "#8b949e";
  if (!colours.has(tenant)) {
    const place = colours.size;
    const hue = Math.round((place * 137.508 + 20) % 360);
    colours.set(tenant, BRIGHT[place] ?? `hsl(${hue} ${place % 2 ? 60 : 45}% ${place % 3 ? 48 : 64}%)`);
  }
  return colours.get(tenant);
}

export function swatch(tenant) {
  const node = make("span", { class: "swatch", "aria-hidden": "true" });
  node.style.background = colourOf(tenant);
  return node;
}

// Rows that stay where they are from one moment to the next, so that neither focus nor reader is disturbed.
export class Rows {
  constructor(body, begin) {
    this.body = body;
    this.begin = begin;
    this.rows = new Map();
  }

  show(items, keyOf, update) {
    const wanted = new Set(items.map(keyOf));
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) {
        row.node.remove();
        this.rows.delete(key);
      }
    }
    let before = null;
    for (const item of items) {
      const key = keyOf(item);
      let row = this.rows.get(key);
      if (!row) this.rows.set(key, (row = this.begin(item)));
      update(row, item);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== row.node) this.body.insertBefore(row.node, next);
      before = row.node;
    }
  }
}

export const prefersStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

let announced = 0;
export function announce(words, every_ms = 0) {
  const now = performance.now();
  if (announced && now - announced < every_ms) return false;
  announced = now;
  put(byId("announce"), words);
  return true;
}
