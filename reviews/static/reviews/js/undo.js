// Undo: a decision is carried out after a few seconds; until then its page or a toast offers to undo it.
import { onKey } from "./keys.js";
import { send } from "./request.js";
import { announce, toast } from "./toast.js";
import { fill, gettext } from "./words.js";

const SHOWN_MS = 6000;
const TICK_MS = 250;
let offered = null;

/** Count down the seconds given in `element`, by this browser's clock. */
function countDown(element, seconds) {
  const end = performance.now() + seconds * 1000;
  const timer = setInterval(() => {
    const left = Math.max(0, Math.ceil((end - performance.now()) / 1000));
    if (!element.isConnected || left === 0) clearInterval(timer);
    if (element.textContent !== String(left)) element.textContent = String(left);
  }, TICK_MS);
}

/** Start the countdown of the page's Undo button. */
export function startForms() {
  for (const form of document.querySelectorAll("[data-undo]:not([data-counting])")) {
    form.dataset.counting = "";
    const left = form.querySelector("[data-seconds-left]");
    if (left) countDown(left, Number(form.dataset.seconds));
  }
}

/** Undo the decision shown in `article`; null if there is none to undo. */
export function undoOf(article) {
  const form = article.querySelector("[data-undo=decision]");
  if (!form) return null;
  return {
    url: form.action,
    token: form.elements.csrfmiddlewaretoken.value,
    label: form.querySelector("button").textContent,
    seconds: form.dataset.waits === "yes" ? SHOWN_MS / 1000 : Number(form.dataset.seconds),
    waits: form.dataset.waits === "yes",
  };
}

/** A toast that names the decision and can undo it; calls `reopen` with the response afterwards.
 *  `undo` is {url, label, seconds, waits} with a `token`, or with the whole `body` to send. */
export function undoToast(text, undo, reopen) {
  dismiss();
  const box = toast(text, null, Math.max(1, undo.seconds) * 1000);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link-button";
  button.dataset.undoToast = "";
  button.setAttribute("aria-keyshortcuts", "U");
  button.textContent = undo.label;
  const key = document.createElement("kbd");
  key.textContent = "U";
  box.append(" ", button, " ", key);
  if (!undo.waits) {
    const left = document.createElement("span");
    left.className = "seconds";
    left.setAttribute("aria-hidden", "true");
    left.textContent = String(Math.ceil(undo.seconds));
    box.append(" ", left, " s");
    countDown(left, undo.seconds);
  }
  const offer = { box, take: () => takeBack(undo, box, reopen) };
  button.addEventListener("click", offer.take);
  offered = offer;
}

function dismiss() {
  offered?.box.remove();
  offered = null;
}

async function takeBack(undo, box, reopen) {
  box.remove();
  offered = null;
  let { body } = undo;
  if (!body) {
    body = new FormData();
    body.set("csrfmiddlewaretoken", undo.token);
  }
  let response;
  try {
    response = await send(undo.url, { method: "POST", body });
  } catch {
    toast(gettext("No connection. Nothing was sent; try again."));
    return;
  }
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (response.ok) {
    if (!undo.body) announce(gettext("Undone. The review is open again."));
    reopen(page);
    return;
  }
  toast(page.querySelector("[data-undo-error]")?.textContent ?? fill(gettext("The server answered %(status)s."), { status: response.status }));
}

onKey("u", () => {
  if (offered?.box.isConnected) {
    offered.take();
    return true;
  }
  const form = document.querySelector("[data-undo]");
  if (!form) return false;
  form.requestSubmit();
  return true;
});
document.addEventListener("htmx:afterSettle", startForms);
startForms();
