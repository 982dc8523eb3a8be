// Tenants: SLA attainment, latency, queue, and what was late, shed or rejected.

import { announce, byId, count, make, number, percent, put, rough, Rows, set, swatch } from "./dom.js";

const ANNOUNCE_EVERY_MS = 10_000;
const COUNTS = [["Late", "late"], ["Shed", "shed"], ["Expired", "expired"], ["Rejected", "rejected"], ["Failed", "failed"]];

export const isBelow = (tenant) => tenant.strict && tenant.target !== null && tenant.attainment !== null && tenant.attainment < tenant.target;

const below = (tenant) => (tenant.attainment === null ? 9 : tenant.attainment - (tenant.target ?? 0));
const ORDERS = {
  worst: (one, other) => below(one) - below(other),
  rate: (one, other) => other.per_s - one.per_s,
  queue: (one, other) => other.queue - one.queue,
};

export class Tenants {
  constructor() {
    this.rows = new Rows(byId("tenants"), beginRow);
    this.moment = null;
    this.warned = "";
    for (const [id, kind] of [["tenant-find", "input"], ["tenant-order", "change"]]) {
      byId(id).addEventListener(kind, () => this.moment && this.show(this.moment));
    }
  }

  show(moment) {
    this.moment = moment;
    const sought = byId("tenant-find").value.trim().toLowerCase();
    const found = moment.tenants.filter((tenant) => tenant.name.toLowerCase().includes(sought));
    const order = ORDERS[byId("tenant-order").value];
    if (order) found.sort(order);
    this.rows.show(found, (tenant) => tenant.name, updateRow);
    const empty = byId("tenants-empty");
    const left = moment.tenants_left_out;
    empty.hidden = found.length > 0 && !left;
    put(empty, found.length ? `${count(left)} more tenants, to whom less happened.` : sought ? "No tenant of that name." : "No tenants.");
    this.warn(moment);
  }

  warn(moment) {
    const names = moment.tenants.filter(isBelow).map((tenant) => tenant.name);
    const words = names.length ? `Below their SLA in the last minute: ${names.join(", ")}.` : this.warned ? "No tenant is below its SLA any more." : "";
    if (words === this.warned || (!words && !this.warned)) return;
    if (announce(words, ANNOUNCE_EVERY_MS)) this.warned = names.length ? words : "";
  }
}

function cell(label, classes = "n") {
  return make("td", { role: "cell", class: classes, "data-label": label });
}

function beginRow(tenant) {
  const name = make("span", { class: "name", title: tenant.name }, tenant.name);
  const promise = make("small");
  const share = make("b");
  const fill = make("i");
  const mark = make("em");
  const meter = make("span", { class: "meter", "aria-hidden": "true" }, fill, mark);
  const inTime = make("td", { role: "cell", class: "half", "data-label": "In time" }, make("div", { class: "share" }, share, meter));
  const cells = { since: cell("since start"), p50: cell("p50 ms"), p99: cell("p99 ms"), rate: cell("per s"), queue: cell("Queue") };
  const counts = COUNTS.map(([label]) => cell(label));
  const node = make("tr", { role: "row" },
    make("th", { role: "rowheader", scope: "row", class: "whole" }, make("div", { class: "who" }, swatch(tenant.name), make("span", {}, name, promise))),
    inTime, ...Object.values(cells), ...counts);
  return { node, promise, share, fill, mark, meter, ...cells, counts };
}

function updateRow(row, tenant) {
  put(row.promise, `${tenant.sla || "no SLA"}${tenant.strict ? "" : ", best effort"}`);
  put(row.share, tenant.attainment === null ? (tenant.due ? "–" : "no requests") : percent(tenant.attainment));
  row.meter.hidden = tenant.attainment === null;
  row.fill.style.width = `${100 * (tenant.attainment ?? 0)}%`;
  row.mark.hidden = tenant.target === null;
  row.mark.style.left = `calc(${100 * (tenant.target ?? 0)}% - 2px)`;
  row.node.classList.toggle("below", isBelow(tenant));
  row.node.classList.toggle("reported", !tenant.strict);
  put(row.since, percent(tenant.attainment_since_start));
  put(row.p50, rough(tenant.p50_ms));
  put(row.p99, rough(tenant.p99_ms));
  put(row.rate, number(tenant.per_s));
  put(row.queue, count(tenant.queue));
  set(row.queue, "title", `at most ${count(tenant.queue_most)}`);
  for (const node of [row.since, row.p50, row.p99]) node.classList.toggle("none", node.textContent === "–");
  row.queue.classList.toggle("some", tenant.queue >= tenant.queue_most);
  COUNTS.forEach(([, name], at) => {
    const node = row.counts[at];
    const value = tenant.counts[name];
    put(node, count(value));
    set(node, "title", `${count(tenant.since_start[name])} since the start`);
    node.className = `n ${value ? (name === "rejected" ? "warned" : "some") : "zero none"}`;
  });
}
