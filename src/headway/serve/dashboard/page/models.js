// Models: state, tier, how well runs were predicted, and loading and unloading.

import { byId, count, make, number, percent, put, rough, Rows, set } from "./dom.js";

const TIERS = ["C0", "C1", "C2", "C3"];
const TIER_WORDS = ["its graph only", "its blocks alone", "some overlaps", "a hundred overlaps of its own"];
const OCTAVES = 2; // of the strip, to either side of 1

export class Models {
  // `ask(action, model)` is called when a button is pressed.
  constructor(ask) {
    this.rows = new Rows(byId("models"), (model) => this.beginRow(model));
    this.ask = ask;
    this.moment = null;
    byId("model-find").addEventListener("input", () => this.moment && this.show(this.moment));
  }

  show(moment) {
    this.moment = moment;
    const sought = byId("model-find").value.trim().toLowerCase();
    const found = moment.models.filter((model) => model.name.toLowerCase().includes(sought));
    const first = new Map();
    found.forEach((model) => first.has(model.name) || first.set(model.name, model));
    this.rows.show(found, (model) => `${model.name}\n${model.version}`, (row, model) => {
      row.model = model;
      updateRow(row, model, first.get(model.name) === model, found);
    });
    const empty = byId("models-empty");
    const left = moment.models_left_out;
    empty.hidden = found.length > 0 && !left;
    put(empty, found.length ? `${count(left)} more models, to which less happened.` : sought ? "No model of that name." : "No models are loaded, and none are in a repository.");
  }

  beginRow(model) {
    const cell = (label, classes = "n") => make("td", { role: "cell", class: classes, "data-label": label });
    const name = make("span", { class: "name", title: model.name }, model.name);
    const facts = make("small");
    const tag = make("span", { class: "tag" });
    const reason = make("p", { class: "reason" });
    const cells = { tier: cell("Tier", ""), underWay: cell("Under way"), rate: cell("per s"), alone: cell("Alone ms"), p99: cell("p99 ms"), busy: cell("Of lanes") };
    const bar = make("i");
    const dot = make("b");
    const strip = make("span", { class: "strip", "aria-hidden": "true" }, bar, dot);
    const ratio = make("span");
    const load = make("button", { type: "button" });
    const unload = make("button", { type: "button" }, "Unload");
    const controls = make("td", { role: "cell", class: "bare whole" }, make("div", { class: "controls" }, load, unload));
    const row = {
      model, name, facts, tag, reason, ...cells, bar, dot, strip, ratio, load, unload, controls,
      node: make("tr", { role: "row" },
        make("th", { role: "rowheader", scope: "row", class: "whole" }, make("div", { class: "who" }, make("span", {}, name, facts))),
        make("td", { role: "cell", class: "half bare" }, tag, reason), ...Object.values(cells),
        make("td", { role: "cell", class: "half", "data-label": "Actual / predicted" }, strip, ratio), controls),
    };
    load.addEventListener("click", () => this.ask("load", row.model));
    unload.addEventListener("click", () => this.ask("unload", row.model));
    return row;
  }
}

function updateRow(row, model, isFirst, all) {
  const ready = model.state === "READY";
  put(row.facts, [model.version && `version ${model.version}`, model.blocks && `${model.blocks} block${model.blocks === 1 ? "" : "s"}`].filter(Boolean).join(", "));
  const off = model.state === "UNAVAILABLE" && ["unloaded", "not loaded"].includes(model.reason);
  put(row.tag, off ? "NOT LOADED" : model.state);
  set(row.tag, "data-state", model.state);
  row.tag.classList.toggle("off", off);
  put(row.reason, off ? "" : model.reason);
  row.reason.hidden = off || !model.reason;
  put(row.tier, model.tier === null ? "–" : TIERS[model.tier]);
  if (model.tier !== null) set(row.tier, "title", TIER_WORDS[model.tier]);
  put(row.underWay, ready ? count(model.under_way) : "–");
  put(row.rate, ready || model.per_s ? number(model.per_s) : "–");
  put(row.alone, number(model.alone_ms));
  put(row.p99, rough(model.p99_ms));
  put(row.busy, ready || model.busy ? percent(model.busy, 0) : "–");
  for (const node of [row.tier, row.underWay, row.rate, row.alone, row.p99, row.busy]) {
    node.classList.toggle("zero", ["–", "0", "0 %"].includes(node.textContent));
    node.classList.toggle("none", !ready);
  }
  showRatio(row, model.ratio);
  row.ratio.parentElement.classList.toggle("none", !ready);
  const anyReady = all.some((other) => other.name === model.name && other.state === "READY");
  const moving = all.some((other) => other.name === model.name && ["LOADING", "UNLOADING"].includes(other.state));
  row.controls.firstChild.hidden = !isFirst;
  row.controls.classList.toggle("none", !isFirst);
  put(row.load, anyReady ? "Load again" : "Load");
  row.load.disabled = moving;
  row.unload.disabled = moving;
  row.unload.hidden = !anyReady;
  set(row.load, "aria-label", `${row.load.textContent}: ${model.name}`);
  set(row.unload, "aria-label", `Unload: ${model.name}`);
}

function showRatio(row, ratio) {
  row.strip.hidden = !ratio;
  put(row.ratio, ratio ? `${rough(ratio.middle)} (${rough(ratio.low)} to ${rough(ratio.high)})` : "no runs");
  row.ratio.className = ratio ? "" : "zero";
  if (!ratio) return;
  set(row.ratio, "title", `${count(ratio.runs)} runs`);
  const place = (value) => 50 + (50 * Math.max(-OCTAVES, Math.min(OCTAVES, Math.log2(value)))) / OCTAVES;
  row.bar.style.left = `${place(ratio.low)}%`;
  row.bar.style.width = `${Math.max(2, place(ratio.high) - place(ratio.low))}%`;
  row.dot.style.left = `${place(ratio.middle)}%`;
}
