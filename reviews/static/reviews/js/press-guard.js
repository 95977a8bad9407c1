// What somebody presses stays in its place until they let go, and what has the focus keeps it.
//
// A click belongs to the element on which the button went down and came up again; of a list that is fetched
// anew in between, the browser makes no click at all, however equal the rows.  So whatever news would put in
// place waits for as long as something is pressed: every answer to htmx by itself, others by `whenReleased`.

let pressedBy = null;
let waiting = [];
let timer = null;
let focused = null;

/** Do it now, or as soon as nothing is pressed any more; in the order of the calls. */
export function whenReleased(action) {
  if (pressedBy) waiting.push(action);
  else action();
}

/** The same to await. */
export const released = () => new Promise(whenReleased);

function press(by) {
  clearTimeout(timer);
  pressedBy = by;
}

/** The click comes in the same task as the release: what waits comes in the next one. */
function release() {
  clearTimeout(timer);
  timer = setTimeout(letGo, 0);
}

function letGo() {
  pressedBy = null;
  const actions = waiting;
  waiting = [];
  for (const action of actions) queueMicrotask(action);
}

function pointerDown(event) {
  if (event.isPrimary && event.button === 0) press("pointer");
}

/** A release over a scrollbar or outside the window is told by nothing but the next move. */
function pointerMove(event) {
  if (pressedBy === "pointer" && event.buttons === 0) release();
}

/** The space bar clicks when it comes up, Enter when it goes down. */
function keyDown(event) {
  if (event.key === " ") press("key");
}

function holdAnswer({ detail: { xhr } }) {
  const { onload } = xhr;
  xhr.onload = () => whenReleased(onload);
}

// --- focus ----------------------------------------------------------------------------------------

/** What an element is to the person: where it leads, what it unfolds, or what it is called. */
function meaning(element) {
  const leads = element.getAttribute("href");
  if (leads) return `to ${leads}`;
  const unfolds = element.tagName === "SUMMARY" && element.parentElement.id;
  if (unfolds) return `unfolds ${unfolds}`;
  return `${element.closest("[id]")?.id} ${element.name ?? ""} ${element.value ?? ""} ${element.textContent.trim()}`;
}

/** htmx finds again what has an id. */
function noteFocus(event) {
  const here = document.activeElement;
  focused = event.target.contains(here) && !here.id ? { tag: here.tagName, meaning: meaning(here) } : null;
}

function giveBack() {
  if (!focused || document.activeElement !== document.body) return;
  const again = [...document.getElementsByTagName(focused.tag)].find((each) => meaning(each) === focused.meaning);
  again?.focus({ preventScroll: true });
}

export function startPressGuard() {
  const early = { capture: true };
  window.addEventListener("pointerdown", pointerDown, early);
  window.addEventListener("pointermove", pointerMove, early);
  window.addEventListener("keydown", keyDown, early);
  for (const name of ["pointerup", "pointercancel", "keyup", "contextmenu"]) window.addEventListener(name, release, early);
  // The whole window's alone: those of elements, which a press moves the focus from, do not bubble.
  window.addEventListener("blur", release);
  document.addEventListener("htmx:beforeSend", holdAnswer);
  document.addEventListener("htmx:beforeSwap", noteFocus);
  document.addEventListener("htmx:afterSwap", giveBack);
}
