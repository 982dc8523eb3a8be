// What ran on each lane in the last seconds, on a canvas that moves with the server's clock.

import { byId, colourOf, make, number, percent, prefersStill, put, Rows, set, shownTenant, swatch } from "./dom.js";

const KEPT_S = 12;
const DELAY_S = 0.8; // rows are written a moment later, and told twice a second
const FRAME_MS = 33;
const AXIS_PX = 20;
const LATEST = 40;

export class Timeline {
  constructor(stream) {
    this.stream = stream;
    this.canvas = byId("timeline");
    this.lanes = [];
    this.spans = [];
    this.going = [];
    this.chosen = null;
    this.pointer = null;
    const choice = byId("span");
    if (innerWidth < 600) choice.value = "2";
    this.span_s = Number(choice.value);
    this.frozen_s = null;
    this.lost = 0;
    this.drawn_ms = 0;
    this.names = new Rows(byId("lanes"), () => {
      const name = make("b");
      const busy = make("span");
      return { node: make("li", {}, name, busy), name, busy };
    });
    this.legend = new Rows(byId("legend"), (tenant) => this.legendButton(tenant));
    choice.addEventListener("change", () => {
      this.span_s = Number(choice.value);
      this.draw();
    });
    byId("pause").addEventListener("click", () => this.pause());
    byId("blocks").addEventListener("toggle", () => this.list());
    byId("blocks-again").addEventListener("click", () => this.list());
    for (const kind of ["pointermove", "pointerdown"]) {
      this.canvas.addEventListener(kind, (event) => this.point(event));
    }
    this.canvas.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && this.point(null));
    addEventListener("keydown", (event) => event.key === "Escape" && this.point(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    requestAnimationFrame((now_ms) => this.frame(now_ms));
  }

  hear(moment) {
    if (this.frozen_s !== null) return;
    this.lanes = moment.lanes;
    this.going = moment.going.map(([lanes, start, tenant, model, expected]) => ({ lanes, start, tenant, model, expected }));
    if (moment.whole) this.spans = [];
    for (const [lanes, start, end, tenant, model, first, last] of moment.spans) {
      this.spans.push({ lanes, start, end, tenant: moment.names[tenant], model: moment.names[model], first, last });
    }
    const oldest = moment.now - KEPT_S;
    this.spans = this.spans.filter((span) => span.end > oldest);
    this.lost = moment.lost;
    this.nameLanes();
    this.showLegend(moment);
    if (prefersStill()) this.draw();
  }

  // The tenants that are there first, as configured, so that each keeps its colour.
  showLegend(moment) {
    const ran = new Set([...this.spans, ...this.going].map((span) => span.tenant));
    moment.tenants.forEach((tenant) => colourOf(tenant.name));
    const known = moment.tenants.map((tenant) => tenant.name).filter((name) => ran.has(name) || name === this.chosen);
    const others = [...ran].filter((name) => !known.includes(name)).sort();
    this.legend.show([...known, ...others], (name) => name, (row, name) => {
      set(row.node, "aria-pressed", String(this.chosen === name));
    });
    const note = this.lost ? `${this.lost} blocks were too many to be shown.`
      : "Each bar is a block or a few of one request, coloured by tenant. Striped: begun, and not told of yet.";
    put(byId("timeline-note"), ran.size ? note : "Nothing ran in the last seconds.");
  }

  legendButton(tenant) {
    const words = shownTenant(tenant);
    const node = make("button", { type: "button", "aria-pressed": "false", title: words }, swatch(tenant), words);
    node.addEventListener("click", () => this.choose(tenant));
    return { node };
  }

  choose(tenant) {
    this.chosen = this.chosen === tenant ? null : tenant;
    for (const [name, row] of this.legend.rows) set(row.node, "aria-pressed", String(name === this.chosen));
    this.draw();
  }

  get rowHeight() {
    return this.lanes.length <= 4 ? 44 : this.lanes.length <= 12 ? 28 : 18;
  }

  nameLanes() {
    byId("lanes").classList.toggle("dense", this.rowHeight < 40);
    this.names.show(this.lanes, (lane) => lane.name, (row, lane) => {
      put(row.name, lane.name);
      put(row.busy, `${percent(lane.busy, 0)} busy`);
      row.node.style.height = `${this.rowHeight}px`;
    });
  }

  pause() {
    const button = byId("pause");
    const paused = this.frozen_s === null;
    this.frozen_s = paused ? this.edge() : null;
    set(button, "aria-pressed", String(paused));
    if (!paused) this.stream.reopen(); // for all that came meanwhile
    this.draw();
  }

  edge() {
    return this.frozen_s ?? (this.stream.now() ?? 0) - DELAY_S;
  }

  frame(now_ms) {
    requestAnimationFrame((next_ms) => this.frame(next_ms));
    const still = this.frozen_s !== null || prefersStill() || this.stream.state !== "good";
    if (!still && now_ms - this.drawn_ms >= FRAME_MS) this.draw(now_ms);
  }

  draw(now_ms = performance.now()) {
    this.drawn_ms = now_ms;
    const { canvas } = this;
    const width = canvas.parentElement.clientWidth;
    const height = Math.max(1, this.lanes.length) * this.rowHeight + AXIS_PX;
    const scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (!this.lanes.length || this.stream.now() === null) return;
    const css = getComputedStyle(document.documentElement);
    const ink = (name) => css.getPropertyValue(name).trim();
    const end = this.edge();
    const x = (time) => width - ((end - time) / this.span_s) * width;
    this.drawGrid(pen, width, height, ink);
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    for (const span of this.spans) {
      if (span.end > end - this.span_s && span.start < end) this.drawSpan(pen, span, x(span.start), x(span.end), width);
    }
    for (const run of this.going) {
      if (run.start < end) this.drawGoing(pen, run, Math.max(0, x(run.start)), width);
    }
    pen.globalAlpha = 1;
    if (this.pointer) this.point(this.pointer); // what is under it moves
  }

  drawGrid(pen, width, height, ink) {
    const bottom = height - AXIS_PX;
    const parts = width < 420 ? 2 : 5;
    const step = this.span_s / parts;
    pen.fillStyle = ink("--grid");
    for (let lane = 0; lane <= this.lanes.length; lane += 1) pen.fillRect(0, lane * this.rowHeight, width, 1);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "alphabetic";
    for (let part = 0; part <= parts; part += 1) {
      const at = width - (part * width) / parts;
      pen.fillStyle = ink("--grid");
      pen.fillRect(Math.min(width - 1, at), 0, 1, bottom);
      pen.fillStyle = ink("--quiet");
      pen.textAlign = part === 0 ? "right" : part === parts ? "left" : "center";
      const words = part ? `−${number(part * step)} s` : this.frozen_s === null ? "now" : "paused";
      pen.fillText(words, at, height - 5);
    }
    pen.textAlign = "left";
  }

  drawSpan(pen, span, left, right, width) {
    const wide = Math.max(right - left, 0.6);
    pen.globalAlpha = this.chosen === null || this.chosen === span.tenant ? 1 : 0.15;
    for (const lane of span.lanes) {
      const top = lane * this.rowHeight + 4;
      const tall = this.rowHeight - 7;
      pen.fillStyle = colourOf(span.tenant);
      pen.fillRect(left, top, wide > 3 ? wide - 1 : wide, tall);
      const from = Math.max(left, 0);
      const seen = Math.min(left + wide, width) - from;
      if (seen > 34 && tall > 12) {
        pen.fillStyle = inkOn(colourOf(span.tenant));
        const words = fitted(pen, span.model.split("/")[0], seen - 10);
        if (words) pen.fillText(words, from + 5, top + tall / 2);
      }
    }
  }

  drawGoing(pen, run, left, right) {
    pen.globalAlpha = this.chosen === null || this.chosen === run.tenant ? 1 : 0.2;
    for (const lane of run.lanes) {
      const top = lane * this.rowHeight + 4;
      const tall = this.rowHeight - 7;
      pen.save();
      pen.beginPath();
      pen.rect(left, top, right - left, tall);
      pen.clip();
      pen.strokeStyle = colourOf(run.tenant);
      pen.lineWidth = 3;
      for (let at = Math.floor((left - tall) / 9) * 9; at < right; at += 9) {
        pen.beginPath();
        pen.moveTo(at, top + tall);
        pen.lineTo(at + tall, top);
        pen.stroke();
      }
      pen.restore();
    }
  }

  point(event) {
    const tip = byId("tip");
    this.pointer = event;
    tip.hidden = !event;
    if (!event) return;
    const box = this.canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top) / this.rowHeight);
    const time = this.edge() - ((box.right - event.clientX) / box.width) * this.span_s;
    const slack = (2 / box.width) * this.span_s;
    const near = (span) => span.lanes.includes(lane) && span.start - slack <= time && time <= span.end + slack;
    const span = this.spans.findLast(near) ?? this.going.find((run) => run.lanes.includes(lane) && run.start <= time);
    tip.hidden = !span;
    if (!span) return;
    put(tip, [shownTenant(span.tenant), span.model, span.end ? `${blocksOf(span)}, ${took(span)}` : goes(span)].join("\n"));
    const left = Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${(lane + 1) * this.rowHeight}px`;
  }

  list() {
    if (!byId("blocks").open) return;
    const now = this.stream.now() ?? 0;
    const rows = this.spans.slice(-LATEST).reverse().map((span) => make("tr", {},
      make("td", {}, span.lanes.map((lane) => this.lanes[lane]?.name ?? lane).join(", ")),
      make("td", {}, shownTenant(span.tenant)), make("td", {}, span.model),
      make("td", { class: "n" }, blocksOf(span)),
      make("td", { class: "n" }, `${(now - span.start).toFixed(2)} s ago`), make("td", { class: "n" }, took(span))));
    byId("blocks-rows").replaceChildren(...rows);
  }
}

const took = (span) => `${number((span.end - span.start) * 1e3)} ms`;
const blocksOf = (span) => (span.last - span.first > 1 ? `blocks ${span.first} to ${span.last - 1}` : `block ${span.first}`);
const goes = (run) => (run.expected === null ? "runs" : `runs, predicted to take ${number(Math.max(0, run.expected - run.start) * 1e3)} ms`);

function fitted(pen, words, width) {
  if (pen.measureText(words).width <= width) return words;
  for (let end = words.length - 1; end > 1; end -= 1) {
    const cut = `${words.slice(0, end)}…`;
    if (pen.measureText(cut).width <= width) return cut;
  }
  return "";
}

const inks = new Map();
function inkOn(colour) {
  if (!inks.has(colour)) {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
    inks.set(colour, 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#101418" : "#ffffff");
  }
  return inks.get(colour);
}
