// Loading and unloading, each confirmed, with a key that only this page's memory holds.

import { byId, put } from "./dom.js";

let key = "";
let keyNeeded = false;
let asked = null;
let number = 0;

export function setKeyNeeded(needed) {
  keyNeeded = needed;
}

export function ask(action, model) {
  asked = { action, model, number: (number += 1) };
  const again = model.state === "READY";
  const verb = action === "unload" ? "Unload" : again ? "Load again" : "Load";
  put(byId("confirm-title"), `${verb} ${model.name}?`);
  put(byId("confirm-words"), wordsFor(action, model, again));
  put(byId("confirm-yes"), verb);
  put(byId("confirm-no"), "Cancel");
  put(byId("confirm-error"), "");
  byId("confirm-yes").disabled = false;
  byId("confirm-keyed").hidden = !keyNeeded || Boolean(key);
  byId("key").value = "";
  byId("confirm").showModal();
  (byId("confirm-keyed").hidden ? byId("confirm-no") : byId("key")).focus();
}

function wordsFor(action, model, again) {
  if (action === "unload") {
    const under = model.under_way ? `${model.under_way} request${model.under_way === 1 ? "" : "s"} under way will be answered first. ` : "";
    return `${under}Further requests to it will be refused until it is loaded.`;
  }
  return again
    ? "It is read and measured again. What is loaded now serves until the new one is warm."
    : "It is read, measured and run three times before it takes requests.";
}

async function go(event) {
  event.preventDefault();
  const mine = asked;
  const typed = byId("key").value;
  if (typed) key = typed;
  if (keyNeeded && !key) {
    put(byId("confirm-error"), "A key is needed for this.");
    byId("key").focus();
    return;
  }
  byId("key").value = "";
  tell("", false);
  byId("confirm-yes").disabled = true;
  put(byId("confirm-error"), "");
  put(byId("confirm-yes"), mine.action === "load" ? "Loading …" : "Unloading …");
  put(byId("confirm-no"), "Close");
  const error = await post(mine.action, mine.model.name);
  byId("forget").hidden = !key;
  const open = byId("confirm").open && asked === mine;
  if (!error) {
    if (open) byId("confirm").close();
    tell(`${mine.model.name} is ${mine.action === "load" ? "loaded" : "unloaded"}.`, false);
  } else if (open) {
    byId("confirm-yes").disabled = false;
    put(byId("confirm-yes"), "Try again");
    put(byId("confirm-error"), error);
    byId("confirm-keyed").hidden = !keyNeeded || Boolean(key);
    if (!byId("confirm-keyed").hidden) byId("key").focus();
  } else {
    tell(error, true);
  }
}

async function post(action, name) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers["X-API-Key"] = key;
  try {
    const answer = await fetch(`v2/repository/models/${encodeURIComponent(name)}/${action}`, { method: "POST", headers, body: "{}" });
    if (answer.ok) return "";
    if (answer.status === 401 || answer.status === 403) key = "";
    const body = await answer.json().catch(() => ({}));
    return typeof body.error === "string" ? body.error : `The server answered ${answer.status}.`;
  } catch (error) {
    return error instanceof TypeError ? "The server cannot be reached, or the key has characters that no key has." : String(error);
  }
}

function tell(words, bad) {
  byId("outcome").classList.toggle("bad", bad);
  put(byId("outcome"), words);
}

export function begin() {
  byId("confirm-form").addEventListener("submit", go);
  byId("confirm-no").addEventListener("click", () => byId("confirm").close());
  byId("confirm").addEventListener("close", () => (byId("key").value = ""));
  byId("forget").addEventListener("click", () => {
    key = "";
    byId("forget").hidden = true;
    tell("The key is forgotten.", false);
  });
}
