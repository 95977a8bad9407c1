// Reports that a review is open on this screen, renews the user's claim, and reports when the review closes.
import { send } from "./request.js";

const LOOK_MS = 20000;
const CLAIM_MS = 60000;
let at = null;
let renewedAt = 0;

const token = () => document.querySelector("[name=csrfmiddlewaretoken]")?.value ?? "";

function post(url, fields = {}) {
  const body = new FormData();
  body.set("csrfmiddlewaretoken", token());
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  return send(url, { method: "POST", body, keepalive: true }).catch(() => {});
}

function leave() {
  if (at) post(at, { leave: "yes" });
  at = null;
}

function look(here) {
  const url = here?.dataset.state === "open" ? here.dataset.lookingUrl : "";
  if (at && at !== url) leave();
  if (!url || document.hidden) return;
  at = url;
  const renew = here.querySelector("[data-claim=mine]") && Date.now() - renewedAt > CLAIM_MS;
  if (renew) renewedAt = Date.now();
  post(url, renew ? { renew: "yes" } : {});
}

/** Report for as long as `article()` returns an open, visible review. */
export function startPresence(article) {
  const now = () => look(article());
  setInterval(now, LOOK_MS);
  document.addEventListener("htmx:afterSettle", () => {
    const url = article()?.dataset.lookingUrl;
    if (url !== at) now();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : now()));
  window.addEventListener("pagehide", leave);
  now();
}
