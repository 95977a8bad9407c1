// The decision page: its form, its keys, and live updates.
import "./copy.js";
import { DecisionForm } from "./form.js";
import { saveDraft } from "./drafts.js";
import { onKey } from "./keys.js";
import { startPresence } from "./presence.js";
import { keepFocus, released } from "./press-guard.js";
import { send } from "./request.js";
import { announce, toast } from "./toast.js";
import { startForms } from "./undo.js";
import { gettext } from "./words.js";

const SETTLE_MS = 150;
const PRESENCE_MS = 1000;
const GUARD_MS = 700;
let current = null;
/** News brings the review anew: its text field gets the focus back. */
let reloading = false;
let timer = null;
let presenceTimer = null;
/** Requests for the state: the number sent, and the one whose answer is shown. */
let looks = 0;
let shownLook = 0;
/** The heading that the title of the page has, unless the page is the queue. */
let heading = "";

const article = () => document.getElementById("decision");

/** Initialize the decision on the page if it is a new one. */
function adopt() {
  const here = article();
  if (!here || current?.article === here) return;
  clearTimeout(presenceTimer); // the viewers of the review before
  const element = here.querySelector("[data-decision-form]");
  const form = element ? new DecisionForm(element, here.dataset.hold) : null;
  current = { article: here, form };
  form?.start();
  guard(here);
  showTitle(here);
  if (here.dataset.settled === "yes") saveDraft(here.dataset.hold, null);
}

/** The next review opens under a pointer that has just clicked, so ignore submits for a moment.  Keys move the focus at once. */
function guard(here) {
  if (!("advancing" in document.body.dataset)) return;
  delete document.body.dataset.advancing;
  const verdict = here.querySelector("#verdict");
  if (!verdict) return;
  let guarded = true;
  const show = () => verdict.classList.toggle("guarded", guarded);
  show();
  // When htmx settles, it gives elements whose id was on the page before the classes of the response.
  document.addEventListener("htmx:afterSettle", show, { once: true });
  here.addEventListener("submit", hold, { capture: true });
  setTimeout(() => {
    guarded = false;
    show();
    here.removeEventListener("submit", hold, { capture: true });
  }, GUARD_MS);
}

function hold(event) {
  if (!event.target.matches("[data-decision-form]")) return;
  event.preventDefault();
  event.stopPropagation();
}

function afterSwap(event) {
  // Update deadline and banner without scrolling.
  if (event.target.id === "deadline" || event.target.id === "decision-status") return;
  if (event.target.closest(".decision-aside")) return;
  adopt();
  const here = article();
  if (!here || !(here === event.target || event.target.contains(here) || here.contains(event.target))) return;
  // The next part of a long payload was loaded: scroll to its start.
  const long = here.querySelector("[data-on-from]");
  if (long) long.scrollTop = long.scrollHeight * Number(long.dataset.onFrom);
  if (reloading) return;
  // The user has gone on to another field meanwhile, such as the search: what is typed would be shortcuts here.
  const { activeElement: active } = document;
  if (!here.contains(active) && active.matches("input:not([type=checkbox]), textarea, select")) return;
  const focus = here.querySelector("[data-focus]") ?? here.querySelector("#decision-title");
  focus.focus({ preventScroll: false });
}

// --- updates --------------------------------------------------------------------------------------

/** Whether a decision is being sent: its answer shows what it changed. */
const isDeciding = (here) => here.querySelector("[data-decision-form].htmx-request") !== null;

/** Fetch the decision's state; update the version silently while the payload is the same. */
async function refresh() {
  const here = article();
  if (!here?.dataset.statusUrl || isDeciding(here)) return;
  const number = ++looks;
  const response = await send(here.dataset.statusUrl);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  await released();
  if (article() !== here || isDeciding(here) || number < shownLook) return;
  shownLook = number;
  show(here, page);
}

/** Show the news in this document, but move nothing of a review that the user was writing in. */
function show(here, page) {
  const news = page.querySelector("[data-fragment-state]");
  if (!news) return;
  take(here, news);
  if (article() !== here || barOf(here)) return;
  showHeadline(here, page.querySelector("[data-headline], #decision-title"));
  const [before, now] = [here.querySelector(".beads"), page.querySelector(".beads")];
  if (before && now) before.replaceWith(document.importNode(now, true));
  showChanges(here, page.querySelector("[data-decided-changes]"));
  showActivity(here, page.querySelector("[data-activity]"));
  const waiting = page.querySelector("[data-waiting]");
  if (waiting && !document.getElementById("queue")) showWaiting(waiting.dataset.waiting);
}

/** The user's decision came too late: that is news, and the page stays as it is. */
function tooLate(event) {
  const { xhr, requestConfig } = event.detail;
  const here = article();
  if (xhr.status !== 409 || !requestConfig.elt.matches("[data-decision-form]") || !here) return;
  event.detail.shouldSwap = false;
  show(here, new DOMParser().parseFromString(xhr.responseText, "text/html"));
  // The button that was pressed is off while its request is under way, and has lost the focus.
  if (document.activeElement === document.body) here.querySelector("#decision-title").focus({ preventScroll: true });
}

const look = () => refresh().catch(() => {});

/** The count in the rail; the queue keeps it by itself. */
function showWaiting(count) {
  const badge = document.getElementById("rail-count");
  if (!badge) return;
  badge.textContent = count;
  badge.hidden = count === "0";
}

function take(here, news) {
  const { fragmentState: state, fragmentMay: may, fragmentVersion: version, fragmentDigest: digest } = news.dataset;
  const form = current?.form;
  if (state === "open" && digest !== here.dataset.digest) return overtaken(here);
  if (form && state === "open") form.form.elements.version.value = version;
  // The other actions are in a new form, which takes the draft over.
  if (may && may !== here.dataset.may) return reload(here);
  const isWriting = form?.isWriting;
  if (may !== here.dataset.may || (state !== "open" && here.dataset.state === "open")) form?.freeze();
  if (state !== "open" && here.dataset.state === "open") announce(gettext("This review is decided. Your text is kept."));
  const bar = isWriting && news.querySelector("template")?.content.firstElementChild;
  if (bar) showBar(here, document.importNode(bar, true));
  else {
    barOf(here)?.remove();
    if (state !== "open") leaveOnlyReading(here);
    else if (!may) removeVerdict(here);
    showBanner(here, news);
  }
  Object.assign(here.dataset, { state, may });
  here.dataset.settled = news.dataset.fragmentSettled;
}

/** Remove what is about deciding; the user was only reading. */
function leaveOnlyReading(here) {
  const closed = ".outcomes, .decision-main > .instructions, #deadline, #extend-form";
  for (const element of here.querySelectorAll(closed)) element.remove();
  removeVerdict(here);
}

/** Remove the buttons of a user who cannot decide any more, unless one of them has the focus. */
function removeVerdict(here) {
  const verdict = here.querySelector("#verdict");
  if (!verdict?.contains(document.activeElement)) verdict?.remove();
}

const barOf = (here) => here.querySelector("[data-news-bar]");

/** Put a bar over the review, in place of the one before; it takes no room, so that nothing moves. */
function showBar(here, bar) {
  const shown = barOf(here);
  if (shown?.textContent === bar.textContent) return;
  shown?.remove();
  here.prepend(bar);
}

/** The heading of a review differs once nobody can decide it any more. */
function showHeadline(here, now) {
  const shown = here.querySelector("#decision-title");
  if (shown.textContent === now.textContent) return;
  shown.replaceChildren(...document.importNode(now, true).childNodes);
  showTitle(here);
}

/** What the decision changed in the payload; where the user's own text is compared with it, both are shown already. */
function showChanges(here, now) {
  const shown = here.querySelector("[data-decided-changes]");
  if (here.querySelector(".versions") || shown?.textContent === now?.textContent) return;
  shown?.remove();
  if (now) here.querySelector(".decision-main > .masks, [data-decision-form]").before(document.importNode(now, true));
}

function showActivity(here, now) {
  const shown = here.querySelector("[data-activity]");
  if (!shown || !now || gist(shown) === gist(now)) return;
  keepFocus(shown, () => shown.replaceWith(document.importNode(now, true)));
}

/** Put the heading into the title of the page, where the heading before is part of it. */
function showTitle(here) {
  const now = here.querySelector("#decision-title").textContent;
  if (heading) document.title = document.title.replace(heading, () => now);
  heading = now;
}

/** Fetch the review again: the user may decide it after all, or may do less than before.  Focus and scroll stay. */
function reload(here) {
  const { action } = here.querySelector("[data-decision-form]");
  const pane = here.closest(".pane-detail") ?? document.scrollingElement;
  let [focused, top] = [null, 0];
  const note = () => {
    [focused, top] = [focusedField(), pane.scrollTop];
    reloading = true;
  };
  here.addEventListener("htmx:beforeSwap", note, { once: true });
  const request = { source: here, target: here, swap: "outerHTML show:none" };
  const done = () => {
    reloading = false;
    if (focused) giveBack(focused);
    pane.scrollTop = top;
  };
  window.htmx.ajax("GET", action, request).then(done).catch(() => (reloading = false));
}

/** What has the focus, and where the user writes in it. */
function focusedField() {
  const { activeElement: element } = document;
  return element === document.body ? null : { element, from: element.selectionStart, to: element.selectionEnd };
}

/** The form is new: the user goes on in the same text field, or in what is outside the form; never on a button. */
function giveBack({ element, from, to }) {
  const isText = Number.isInteger(from);
  const again = element.isConnected ? element : isText && within(`[data-decision-form] [name="${CSS.escape(element.name)}"]`);
  if (!again) {
    article().querySelector("#decision-title").focus({ preventScroll: true });
    return;
  }
  again.focus({ preventScroll: true });
  if (isText) again.setSelectionRange(from, to);
}

/** The text of a banner without its running clocks. */
function gist(banner) {
  const copy = banner.cloneNode(true);
  for (const time of copy.querySelectorAll("time, [data-seconds-left]")) time.remove();
  return copy.textContent.replace(/\s+/g, " ").trim();
}

function showBanner(here, news) {
  const holder = here.querySelector("#decision-status");
  const shown = holder.querySelector("[data-fragment-state]");
  const keep = news.dataset.fragmentState === "open" && holder.querySelector("[role=alert]");
  if (keep || (shown && gist(shown) === gist(news))) return;
  const menu = holder.querySelector("[data-menu][open]");
  if (menu && news.dataset.fragmentState === "open") {
    // The user chooses something in it.
    menu.addEventListener("toggle", look, { once: true });
    return;
  }
  keepFocus(holder, () => holder.replaceChildren(document.importNode(news, true)));
  window.htmx.process(holder);
  startForms();
}

function overtaken(here) {
  const bar = document.createElement("div");
  bar.className = "news-bar";
  bar.dataset.newsBar = "";
  bar.setAttribute("role", "alert");
  const box = document.createElement("div");
  const words = document.createElement("span");
  words.textContent = gettext("The payload changed while you were reading");
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = gettext("Show the present payload");
  box.append(words, link);
  bar.append(box);
  showBar(here, bar);
  if (!current?.form) return;
  current.form.blocked = true;
  current.form.overtaken = true;
  current.form.update();
}

function onNews(event) {
  const about = event.detail?.executionId;
  if (!article() || (about && about !== article().dataset.execution)) return;
  if (event.detail?.type === "hold_extended" && event.detail.holdId === article().dataset.hold) {
    document.body.dispatchEvent(new CustomEvent("holdpoint:extended"));
  }
  const { holdId, seq, type } = event.detail ?? {};
  if (isDeciding(article())) return;
  // The page already shows this version, or the news is about another review of the run.
  if (seq <= Number(current?.form?.form.elements.version.value)) return;
  if (type === "review_presence") {
    if (holdId !== article().dataset.hold) return;
    clearTimeout(presenceTimer);
    presenceTimer = setTimeout(look, PRESENCE_MS);
  } else {
    clearTimeout(timer);
    timer = setTimeout(look, SETTLE_MS);
  }
}

// --- keys -----------------------------------------------------------------------------------------

const within = (selector) => article()?.querySelector(selector);

function go(selector) {
  const element = within(selector);
  if (!element) return false;
  element.focus();
  element.scrollIntoView({ block: "nearest" });
  return true;
}

/** Close the open panel; returns its button, or null if none was open. */
function closePanel() {
  for (const name of ["reject", "changes"]) {
    if (!within(`[data-${name}-panel].open`)) continue;
    if (name === "reject") current.form.toggleReject();
    else current.form.toggleChanges();
    return `[data-${name}-open]`;
  }
  return null;
}

function startKeys() {
  onKey("a", () => {
    closePanel();
    return go("[data-approve]");
  });
  onKey("c", () => go("[data-comment]"));
  onKey("m", () => {
    const button = within("#claim button[value=claim], #claim button[value=release]");
    button?.click();
    return Boolean(button);
  });
  onKey("e", () => go("[data-fields]:not([hidden]) [data-input], [data-raw]:not([hidden]) [data-edits]"));
  onKey("r", () => {
    if (!within("[data-reject-panel]") || current.form.frozen) return false;
    if (!within("[data-reject-panel].open")) current.form.toggleReject();
    return go("[data-comment]");
  });
  onKey("f", () => {
    if (!within("[data-changes-panel]") || current.form.frozen) return false;
    if (!within("[data-changes-panel].open")) current.form.toggleChanges();
    return go("[data-comment]");
  });
  onKey("Escape", () => {
    const opener = closePanel();
    return opener ? go(opener) : false;
  });
}

function compare(event) {
  if (event.target.closest("[data-compare]")) current?.form?.compare();
}

async function copyMine(event) {
  if (!event.target.closest("[data-copy-mine]") || !current?.form) return;
  try {
    await navigator.clipboard.writeText(current.form.mine());
    toast(gettext("Copied."));
  } catch {
    toast(gettext("The browser did not allow copying; select the text instead."));
  }
}

function reuse(event) {
  const button = event.target.closest("[data-reuse]");
  if (!button || !current?.form?.canEdit) return;
  current.form.use(button.parentElement.querySelector("[data-reuse-value]").textContent);
  announce(gettext("The edit is in the form; look at it before you approve."));
  go("[data-diff]:not([hidden]), [data-changes]:not([hidden])");
}

document.addEventListener("click", reuse);
document.addEventListener("htmx:afterSwap", afterSwap);
document.addEventListener("htmx:beforeSwap", tooLate);
document.addEventListener("click", compare);
document.addEventListener("click", copyMine);
document.body.addEventListener("holdpoint:news", onNews);
document.body.addEventListener("holdpoint:poll", onNews);
startKeys();
adopt();
startPresence(article);
