// The page at /ui: hears of the server's moments and shows them.

import { ask, begin, setKeyNeeded } from "./control.js";
import { announce, byId, percent, put, set } from "./dom.js";
import { Models } from "./models.js";
import { showEndings, showFacts, showQueue } from "./overview.js";
import { Stream } from "./stream.js";
import { isBelow, Tenants } from "./tenants.js";
import { Timeline } from "./timeline.js";

let words = "";

function showState(state, text, spoken = true) {
  set(byId("connection"), "data-state", state);
  put(byId("connection"), text);
  if (spoken && words && text !== words) announce(`${text}.`);
  words = text;
}

function hear(moment) {
  showFacts(moment);
  showQueue(moment);
  showEndings(moment);
  timeline.hear(moment);
  tenants.show(moment);
  models.show(moment);
  setKeyNeeded(moment.key_needed);
  if (!moment.live) showState("bad", "Engine ended");
  else if (!moment.ready) showState("warn", "Not ready: loading or ending");
  else if (moment.tenants.some(isBelow)) showState("warn", "Live, some below SLA", false);
  else showState("good", "Live", !words.startsWith("Live"));
  document.title = `${percent(moment.all.attainment)} in time · ${moment.name} · Headway`;
  document.documentElement.dataset.heard = String(moment.number);
}

function change(state) {
  const lost = state === "lost";
  document.body.classList.toggle("stale", lost);
  byId("lost").hidden = !lost;
  if (lost) {
    const at = new Date().toLocaleTimeString("en-GB");
    put(byId("lost"), `Connection lost at ${at}. What is shown is as of then; trying again.`);
    showState("bad", "Connection lost", false);
    document.title = "Connection lost · Headway";
  } else if (state === "wait") showState("wait", "Connecting", false);
}

begin();
const tenants = new Tenants();
const models = new Models(ask);
const stream = new Stream(hear, change);
const timeline = new Timeline(stream);
