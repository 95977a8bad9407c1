// Bulk decisions: select reviews with a checkbox or X, decide them together, show one result each.
import { onKey } from "./keys.js";
import { send } from "./request.js";
import { announce, toast } from "./toast.js";
import { startForms, undoToast } from "./undo.js";
import { fill, gettext, ngettext } from "./words.js";

const bar = document.querySelector("[data-bulk]");
const dialog = document.getElementById("bulk-dialog");
// The button's label for a number of reviews; with a question mark it is the dialog's heading.
const WORDS = {
  approve: (n) => fill(ngettext("Approve %(n)s review", "Approve %(n)s reviews", n), { n }),
  reject: (n) => fill(ngettext("Reject %(n)s review", "Reject %(n)s reviews", n), { n }),
};
const leftOut = (n) =>
  fill(
    ngettext(
      "Not included: %(n)s review with high risk. Open it to decide.",
      "Not included: %(n)s reviews with high risk. Open each to decide.",
      n,
    ),
    { n },
  );

const rows = () => [...document.querySelectorAll("#queue-list [data-hold]:not(.gone)")];
const boxOf = (row) => row.querySelector("[data-pick]");
const chosen = () => rows().filter((row) => boxOf(row)?.checked);

function show() {
  const count = chosen().length;
  bar.hidden = count === 0;
  bar.querySelector("[data-bulk-count]").textContent = fill(ngettext("%(n)s selected", "%(n)s selected", count), { n: count });
}

function chooseAll(on) {
  for (const row of rows()) if (boxOf(row)) boxOf(row).checked = on;
  show();
}

/** Toggle the checkbox of the row that is open or has the focus. */
function toggle() {
  const row =
    document.activeElement?.closest?.("#queue-list [data-hold]") ??
    document.querySelector("#queue-list [data-open][aria-current]")?.closest("[data-hold]");
  const box = row && boxOf(row);
  if (!box) return false;
  box.checked = !box.checked;
  announce(box.checked ? gettext("Selected.") : gettext("Not selected any more."));
  show();
  return true;
}

// --- sending --------------------------------------------------------------------------------------

async function answer(action, picked, comment) {
  const body = new FormData(bar);
  body.set("action", action);
  body.set("comment", comment);
  for (const row of picked) body.append("hold", `${row.dataset.hold}@${row.dataset.version}`);
  const response = await send(bar.action, { method: "POST", body });
  if (!response.ok && response.status !== 422) throw new Error(String(response.status));
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  return { ok: response.ok, page };
}

function news() {
  chooseAll(false);
  document.body.dispatchEvent(new CustomEvent("holdpoint:news"));
}

async function sendAtOnce(action) {
  const { page } = await answer(action, chosen(), "");
  const failed = [...page.querySelectorAll("[data-done=no]")];
  const said = page.querySelector("[data-bulk-summary]")?.textContent ?? gettext("Nothing was sent.");
  toast(failed.length ? `${said} ${failed[0].querySelector(".muted").textContent}` : said);
  news();
}

// --- the confirmation dialog ----------------------------------------------------------------------

const part = (name) => dialog.querySelector(`[data-bulk-${name}]`);
let pending = null;

function ask(action) {
  const all = chosen();
  const risky = action === "approve" ? all.filter((row) => row.dataset.risk === "high") : [];
  const picked = all.filter((row) => !risky.includes(row));
  pending = { action, picked };
  dialog.querySelector("h2").textContent = fill(gettext("%(question)s?"), { question: WORDS[action](picked.length) });
  part("list").replaceChildren(...picked.map(line));
  part("left-out").hidden = risky.length === 0;
  part("left-out").textContent = leftOut(risky.length);
  part("comment").value = "";
  part("comment").required = action === "reject";
  part("body").hidden = false;
  part("result").replaceChildren();
  part("close").textContent = gettext("Cancel");
  const button = part("send");
  button.hidden = false;
  button.disabled = picked.length === 0;
  button.className = action === "reject" ? "button danger" : "button primary";
  button.textContent = WORDS[action](picked.length);
  dialog.showModal();
  part("comment").focus();
}

function line(row) {
  const item = document.createElement("li");
  const says = row.querySelector(".says");
  item.append(...document.importNode(says, true).childNodes);
  const why = document.createElement("span");
  why.className = "muted";
  why.textContent = ` ${row.querySelector(".facts").textContent.replace(/\s+/g, " ").trim()}`;
  item.append(why);
  const tasks = row.querySelector("template[data-tasks]");
  if (tasks) item.append(document.importNode(tasks.content, true));
  return item;
}

async function confirm() {
  const comment = part("comment").value.trim();
  if (part("comment").required && !comment) {
    part("comment").reportValidity();
    return;
  }
  part("send").disabled = true;
  const sent = pending;
  try {
    const { ok, page } = await answer(sent.action, sent.picked, comment);
    if (!dialog.open || pending !== sent) {
      sayResult(page);
      return;
    }
    showResult(page);
    part("send").disabled = ok;
    if (!ok) return;
    part("body").hidden = true;
    dialog.querySelector("h2").textContent = gettext("Results");
    part("send").hidden = true;
    part("close").textContent = gettext("Done");
    part("close").focus();
    news();
  } catch {
    if (pending === sent) part("send").disabled = false;
    toast(gettext("The response did not arrive. The list shows which reviews are decided; check it before you submit again."));
  }
}

// --- undo -----------------------------------------------------------------------------------------

let offer = null;

// The form has a field named `action`, which hides the property.
const addressOf = (form) => form.getAttribute("action");

/** Show the results, and offer to undo them until the undo time is over. */
function showResult(page) {
  part("result").replaceChildren(...page.body.childNodes);
  offer = offerOf(part("result"));
  startForms();
}

function offerOf(results) {
  const form = results.querySelector("[data-undo]");
  return form && {
    url: addressOf(form),
    label: form.querySelector("button").textContent,
    body: new FormData(form),
    ends: performance.now() + Number(form.dataset.seconds) * 1000,
    said: results.querySelector("[data-bulk-summary]").textContent,
  };
}

/** The dialog was closed before the answer came: a toast says what was done. */
function sayResult(page) {
  const made = offerOf(page);
  if (made) offerUndo(made);
  else toast(page.querySelector("[data-bulk-summary]")?.textContent ?? gettext("Nothing was sent."));
  news();
}

function offerUndo(made) {
  const seconds = (made.ends - performance.now()) / 1000;
  if (seconds > 0) undoToast(made.said, { ...made, seconds, waits: false }, tookBack);
}

async function takeBack(event) {
  event.preventDefault();
  const form = event.target;
  form.querySelector("button").disabled = true;
  try {
    const response = await send(addressOf(form), { method: "POST", body: new FormData(form) });
    if (!response.ok) throw new Error(String(response.status));
    showResult(new DOMParser().parseFromString(await response.text(), "text/html"));
    part("close").focus();
    news();
  } catch {
    form.querySelector("button").disabled = false;
    toast(gettext("No connection. Nothing was sent; try again."));
  }
}

/** The dialog closes before the undo time ends: a toast offers the undo for the rest of it. */
function closed() {
  part("result").replaceChildren();
  if (offer) offerUndo(offer);
  offer = null;
}

function tookBack(page) {
  toast(page.querySelector("[data-bulk-summary]").textContent);
  news();
}

if (bar) {
  document.addEventListener("change", (event) => event.target.matches("[data-pick]") && show());
  document.addEventListener("holdpoint:rows", show);
  bar.addEventListener("submit", (event) => event.preventDefault());
  bar.addEventListener("click", ({ target }) => {
    if (target.closest("[data-bulk-all]")) return chooseAll(true);
    if (target.closest("[data-bulk-none]")) return chooseAll(false);
    const action = target.closest("[data-bulk-do]")?.dataset.bulkDo;
    if (action in WORDS) return ask(action);
    if (action) return sendAtOnce(action).catch(() => toast(gettext("No connection. Try again.")));
    return undefined;
  });
  part("send").addEventListener("click", () => confirm());
  part("close").addEventListener("click", () => dialog.close());
  part("result").addEventListener("submit", takeBack);
  dialog.addEventListener("close", closed);
  onKey("x", toggle);
}
