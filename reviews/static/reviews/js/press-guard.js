// Delays updates of the page while the user presses a button or key, and keeps the focus through updates.
//
// A browser fires a click only if the pointer went down and up on the same element.  If a list is replaced in
// between, there is no click, even if the rows are equal.  So updates wait until nothing is pressed: htmx
// swaps automatically, other updates through `whenReleased`.

let pressedBy = null;
let waiting = [];
let timer = null;
let focused = null;

/** Run the function now, or when nothing is pressed any more, in the order of the calls. */
export function whenReleased(action) {
  if (pressedBy) waiting.push(action);
  else action();
}

/** A promise that resolves when nothing is pressed. */
export const released = () => new Promise(whenReleased);

function press(by) {
  clearTimeout(timer);
  pressedBy = by;
}

/** The click fires in the same task as the release, so run waiting updates in the next task. */
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

/** A release over a scrollbar or outside the window is noticed only at the next move. */
function pointerMove(event) {
  if (pressedBy === "pointer" && event.buttons === 0) release();
}

/** The space bar clicks on keyup, Enter on keydown. */
function keyDown(event) {
  if (event.key === " ") press("key");
}

function holdAnswer({ detail: { xhr } }) {
  const { onload } = xhr;
  xhr.onload = () => whenReleased(onload);
}

// --- focus ----------------------------------------------------------------------------------------

/** A key that identifies an element after an update: its link, its control, or its name. */
function meaning(element) {
  const leads = element.getAttribute("href");
  if (leads) return `to ${leads}`;
  const unfolds = element.tagName === "SUMMARY" && element.parentElement.id;
  if (unfolds) return `unfolds ${unfolds}`;
  return `${element.closest("[id]")?.id} ${element.name ?? ""} ${element.value ?? ""} ${element.textContent.trim()}`;
}

function noteFocus(holder) {
  const here = document.activeElement;
  focused = holder.contains(here) ? { tag: here.tagName, meaning: meaning(here) } : null;
}

function giveBack() {
  if (!focused || document.activeElement !== document.body) return;
  const again = [...document.getElementsByTagName(focused.tag)].find((each) => meaning(each) === focused.meaning);
  again?.focus({ preventScroll: true });
}

/** Call the function, which replaces what is in the element; the focus stays. */
export function keepFocus(holder, replace) {
  noteFocus(holder);
  replace();
  giveBack();
}

export function startPressGuard() {
  const early = { capture: true };
  window.addEventListener("pointerdown", pointerDown, early);
  window.addEventListener("pointermove", pointerMove, early);
  window.addEventListener("keydown", keyDown, early);
  for (const name of ["pointerup", "pointercancel", "keyup", "contextmenu"]) window.addEventListener(name, release, early);
  // Only blur of the window: blur events of elements do not bubble.
  window.addEventListener("blur", release);
  document.addEventListener("htmx:beforeSend", holdAnswer);
  // htmx restores the focus of elements with an id.
  document.addEventListener("htmx:beforeSwap", ({ target }) => {
    focused = null;
    if (!document.activeElement.id) noteFocus(target);
  });
  document.addEventListener("htmx:afterSwap", giveBack);
}
