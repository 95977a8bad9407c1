// Single-key shortcuts.  They are ignored in text fields and with modifiers, and users can turn them off.
import { toast } from "./toast.js";
import { gettext } from "./words.js";

const STORE = "holdpoint.keys";
const handlers = new Map();
/** Keys whose handlers are loaded with the first review beside the list. */
const comingKeys = new Set();
const SHEET = [
  ["J", gettext("next review")],
  ["K", gettext("previous review")],
  ["A", gettext("go to the Approve button (Enter then approves)")],
  ["E", gettext("edit the payload")],
  ["R", gettext("reject, with a reason")],
  ["F", gettext("request changes, with feedback")],
  ["U", gettext("undo the decision just made")],
  ["C", gettext("comment")],
  ["M", gettext("claim the review (make it mine), or release it")],
  ["S", gettext("skip: open the next review without a decision")],
  ["X", gettext("select, to decide several at once")],
  ["/", gettext("search or filter")],
  ["?", gettext("this list")],
  ["Esc", gettext("leave a field, close a panel")],
];

/** Call `handler` when `key` is pressed; it returns false to pass the key on.  The newest handler is called first. */
export function onKey(key, handler) {
  handlers.set(key, [handler, ...(handlers.get(key) ?? [])]);
}

/** List these keys in the help, although their handlers are not loaded yet. */
export function announceKeys(keys) {
  for (const key of keys) comingKeys.add(key);
}

export function keysAreOn() {
  try {
    return localStorage.getItem(STORE) !== "off";
  } catch {
    return true;
  }
}

export function inTextField(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox],[type=button],[type=submit]), textarea, select");
}

// A text field can vanish while the user types, or lose the focus to another element.  What they go on typing is
// text, not shortcuts: these rest until the user clicks, or presses Tab or Escape.

/** The text field that the user types in, also when it has vanished. */
let written = null;

const focusedField = () => (inTextField(document.activeElement) ? document.activeElement : null);

function watchTyping() {
  const early = { capture: true };
  document.addEventListener("focusin", () => (written = focusedField() ?? written), early);
  document.addEventListener("click", (event) => event.isTrusted && (written = focusedField()), early);
  document.addEventListener("keydown", (event) => ["Tab", "Escape"].includes(event.key) && (written = null), early);
}

/** Approving takes Enter: the space after a word approves nothing, wherever the focus is. */
function refuseSpace(event) {
  if (event.key !== " " || !event.target.closest?.("[data-enter-only]")) return;
  event.preventDefault();
  if (event.type === "keydown" && !event.repeat) toast(gettext("Press Enter to decide."));
}

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const typing = inTextField(event.target);
  if (event.key === "Escape" && typing) return event.target.blur();
  if (typing || written || (event.key !== "Escape" && !keysAreOn())) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if ((handlers.get(key) ?? []).some((handler) => handler(event) !== false)) event.preventDefault();
}

/** Whether the key has a handler on this page; the help lists only such keys. */
function isHere(key) {
  return key === "Esc" || handlers.has(key.toLowerCase()) || comingKeys.has(key.toLowerCase());
}

function sheet() {
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  dialog.setAttribute("aria-labelledby", "keys-title");
  const title = document.createElement("h2");
  title.id = "keys-title";
  title.textContent = gettext("Keys");
  const list = document.createElement("dl");
  list.className = "key-list";
  for (const [key, does] of SHEET.filter(([key]) => isHere(key))) {
    const term = document.createElement("dt");
    const cap = document.createElement("kbd");
    cap.textContent = key;
    term.append(cap);
    const words = document.createElement("dd");
    words.textContent = does;
    list.append(term, words);
  }
  const close = document.createElement("button");
  close.className = "button small";
  close.textContent = gettext("Close");
  close.addEventListener("click", () => dialog.close());
  const off = document.createElement("p");
  off.className = "hint";
  off.textContent = gettext("Turn single-key shortcuts off in the menu under your name.");
  dialog.append(title, list, off, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function startKeys() {
  onKey("?", sheet);
  onKey("/", () => {
    const fields = document.querySelectorAll("[data-search]");
    fields[fields.length - 1]?.focus();
  });
  watchTyping();
  document.addEventListener("keydown", pressed);
  // Browsers click a button when the space bar comes up, or prepare it when it goes down.
  for (const name of ["keydown", "keyup"]) window.addEventListener(name, refuseSpace, { capture: true });
  document.addEventListener("click", (event) => event.target.closest("[data-keys-open]") && sheet());
  const control = document.querySelector("[data-keys-switch]");
  if (!control) return;
  control.checked = keysAreOn();
  control.addEventListener("change", () => {
    try {
      localStorage.setItem(STORE, control.checked ? "on" : "off");
    } catch {
      control.checked = true;
    }
  });
}
