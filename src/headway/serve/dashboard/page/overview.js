// The server as a whole: facts in the head, the queue over a minute, and how requests ended.

import { byId, count, ENDINGS, make, number, percent, put, rough, set } from "./dom.js";

const MINUTE_S = 60;
const WIDTH = 600;
const HEIGHT = 110;
const samples = [];
const endings = new Map();

function fact(id, words, more = "") {
  const node = byId(id);
  if (node.dataset.words === words + more) return;
  node.dataset.words = words + more;
  node.replaceChildren(words, ...(more ? [make("small", {}, more)] : []));
}

export function showFacts(moment) {
  const { all } = moment;
  const busy = moment.lanes.reduce((sum, lane) => sum + lane.busy, 0) / Math.max(1, moment.lanes.length);
  fact("fact-attainment", percent(all.attainment), all.due ? `of ${count(all.due)}` : "");
  fact("fact-rate", number(all.per_s), "per s");
  fact("fact-queue", count(all.queue));
  fact("fact-busy", percent(busy, 0), `of ${moment.lanes.length}`);
  fact("fact-ratio", rough(all.ratio?.middle), all.ratio ? `${rough(all.ratio.low)} to ${rough(all.ratio.high)}` : "");
  const faults = moment.faults ? `, ${count(moment.faults)} decisions taken by earliest deadline after an error of the policy` : "";
  put(byId("lead"), `Policy ${moment.policy}, up ${duration(moment.now)}, figures of the last ${moment.window_s < MINUTE_S ? duration(moment.window_s) : "minute"}${faults}`);
  put(byId("name"), moment.name);
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.floor(seconds)} s`;
  if (seconds < 5400) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

export function showQueue(moment) {
  if (samples.length && moment.now < samples.at(-1)[0]) samples.length = 0; // another server
  samples.push([moment.now, moment.all.queue]);
  while (samples[0][0] < moment.now - MINUTE_S) samples.shift();
  const most = Math.max(4, ...samples.map(([, queue]) => queue));
  const x = (time) => (WIDTH * (1 - (moment.now - time) / MINUTE_S)).toFixed(1);
  const y = (queue) => (HEIGHT * (1 - queue / most)).toFixed(1);
  let path = "";
  samples.forEach(([time, queue], at) => (path += at ? `H${x(time)}V${y(queue)}` : `M${x(time)} ${y(queue)}`));
  set(byId("queue-line"), "d", path);
  set(byId("queue-area"), "d", `${path}V${HEIGHT}H${x(samples[0][0])}Z`);
  put(byId("queue-now"), count(moment.all.queue));
  const highest = Math.max(...samples.map(([, queue]) => queue));
  const young = moment.now - samples[0][0] < MINUTE_S - 2;
  put(byId("queue-most"), `at most ${count(highest)}${young ? " since this page opened" : ""}`);
}

export function showEndings(moment) {
  const { counts } = moment.all;
  const total = Object.values(counts).reduce((sum, each) => sum + each, 0);
  for (const [name, words] of ENDINGS) {
    if (!endings.has(name)) {
      const bar = make("i", { class: name });
      const figure = make("dd");
      byId("endings-bar").append(bar);
      byId("endings").append(make("div", {}, make("dt", {}, make("span", { class: `key ${name}`, "aria-hidden": "true" }), words), figure));
      endings.set(name, { bar, figure });
    }
    const { bar, figure } = endings.get(name);
    bar.style.flexGrow = String(counts[name]);
    bar.hidden = !counts[name];
    put(figure, count(counts[name]));
  }
  put(byId("endings-note"), total ? "Last minute, all tenants." : "No request ended in the last minute.");
}
