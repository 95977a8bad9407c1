// The queue: rows keep their places, new rows wait behind a line, and the next review opens by itself.
import { saveDraft } from "./drafts.js";
import { announceKeys, onKey } from "./keys.js";
import { released } from "./press-guard.js";
import { send } from "./request.js";
import { announce, toast } from "./toast.js";
import { undoOf, undoToast } from "./undo.js";
import { fill, gettext, ngettext } from "./words.js";

const LEAST_COST_MS = 50;
/** How far refreshes may exceed their share of time: a few at once, before they are spaced. */
const AHEAD_MS = 400;
const MOST_LOOKS = 2;
const RETRY_MS = 5000;
const COUNT_AFTER_MS = 200;
/** Who views or claims a review can be shown a little later, together with other news. */
const PRESENCE_MS = 1000;
/** Above this number of changed runs, the whole list is fetched. */
const MOST_RUNS = 25;
const wide = window.matchMedia("(min-width: 1100px)");
const queue = document.getElementById("queue");
let fresh = new Map();
/** Rows of decided reviews → the row that followed, for an undo. */
const removed = new Map();
/** Reviews that this page has decided: their counts came with the answer. A vote of several decides nothing yet. */
const decidedHere = new Set();
/** How many new rows have been announced. */
let announced = 0;
/** Runs that changed since the last refresh → seq of the newest event, 0 for who views or claims a review;
 *  `everything` when an event names no run. */
let changed = new Map();
/** Runs of this page's decisions → version that the answer to the decision has shown. */
const versions = new Map();
/** A decision is being sent: its answer has the rows that changed, so refreshes wait for it. */
let deciding = false;
/** The row that was chosen while a decision is being sent: its review opens after the answer. */
let chosen = null;
/** The answer to a decision, while htmx swaps the next review in. */
let answer = null;
let everything = false;
/** Active refreshes: the runs that each fetches, or null for the whole list. */
const looks = new Set();
let missed = false;
/** When the refreshes so far have used up their share of time; no refresh before `notBefore`. */
let paid = 0;
let notBefore = 0;
let timer = null;
/** Requests for the counts on the tabs: the number sent, and the one whose response is shown. */
let tabsAsked = 0;
let tabsOf = 0;
/** A request is due or active; there was an event since it was sent. */
let counting = false;
let uncounted = false;

const list = () => document.getElementById("queue-list");
const rows = () => [...list().querySelectorAll("[data-hold]")];
const live = () => rows().filter((row) => !row.classList.contains("gone"));
const rowOf = (hold) => rows().find((row) => row.dataset.hold === hold);
const linkOf = (row) => row.querySelector("[data-open]");
const openRow = () => list().querySelector("[data-open][aria-current]")?.closest("[data-hold]");

// --- opening --------------------------------------------------------------------------------------

/** Mark the row whose review is open beside the list. */
function choose(row) {
  for (const other of list().querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
  linkOf(row).setAttribute("aria-current", "true");
  row.scrollIntoView({ block: "nearest" });
  const address = new URL(location.href);
  address.searchParams.set("hold", row.dataset.hold);
  history.replaceState(null, "", address);
}

/** The modules of an open review, a fifth of what the page loads: they come with the first review beside the list. */
const loadDecision = () => import("./decision.js");

/** Load them a moment earlier: the user points at the list, or presses a key. */
function loadAhead() {
  if (wide.matches) loadDecision().catch(() => {});
}

/** Show the row's review: beside the list where there is room, else as its own page. */
async function open(row) {
  if (deciding) {
    chosen = row;
    return;
  }
  const link = linkOf(row);
  if (!wide.matches) {
    location.assign(link.href);
    return;
  }
  choose(row);
  const detail = document.getElementById("detail");
  detail.setAttribute("aria-busy", "true");
  try {
    await loadDecision();
  } catch {
    location.assign(link.href); // a page of an earlier release, whose modules are gone
    return;
  }
  const done = () => detail.removeAttribute("aria-busy");
  // Requests without a source share one queue, of which htmx keeps only the last.
  window.htmx.ajax("GET", link.href, { source: detail, target: detail, swap: "innerHTML show:none" }).then(done, done);
}

function clicked(event) {
  if (event.target.closest("[data-show-new]")) {
    const first = showNew();
    if (first) linkOf(first).focus();
    return undefined;
  }
  const link = event.target.closest("[data-open]");
  const plain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !plain || !wide.matches) return undefined;
  event.preventDefault();
  return open(link.closest("[data-hold]"));
}

function move(by) {
  const reachable = live();
  if (!reachable.length) return false;
  const here = reachable.indexOf(openRow() ?? document.activeElement?.closest?.("[data-hold]"));
  const next = reachable[Math.min(reachable.length - 1, Math.max(0, here + by))];
  if (wide.matches) open(next);
  linkOf(next).focus({ preventScroll: wide.matches });
  return true;
}

/** Open the review after the open one, and the first one after the last. */
function skip() {
  const reachable = live();
  const place = reachable.indexOf(openRow());
  if (!reachable.length) return false;
  if (place < reachable.length - 1) return move(1);
  announce(gettext("That was the last review; this is the first."));
  return move(-reachable.length);
}

/** The bar over a decided review leads to the next one of this list, else to where its link leads. */
function openNext(event) {
  if (!event.target.closest("[data-next-review]") || !wide.matches) return;
  const all = rows();
  const later = all.slice(all.indexOf(openRow()) + 1);
  const next = [...later, ...all].find((row) => live().includes(row) && row !== openRow());
  if (!next) return;
  event.preventDefault();
  open(next);
}

// --- updates --------------------------------------------------------------------------------------

/** Fetch the rows of these runs, or the whole list and its tabs when `runs` is null; the counts if they may change. */
async function refresh(runs, counts) {
  const number = runs ? 0 : ++tabsAsked;
  const page = await part("queue-list", runs && { changed: [...runs].join(","), until: list().dataset.pageEnd });
  await released();
  take(page.getElementById("queue-list"), runs);
  if (!runs) takeTabs(page, number);
  else if (counts) countSoon();
}

/** Fetch a part of this page as a separate document. */
async function part(id, query) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(query ?? {})) address.searchParams.set(name, value);
  const response = await send(address, { headers: { "HX-Target": id } });
  if (!response.ok) throw new Error(`the page was answered with ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!page.getElementById(id)) throw new Error(`no ${id} came`);
  return page;
}

function take(told, runs) {
  const asked = (row) => !runs || runs.has(row.dataset.execution);
  const arrived = new Map([...told.querySelectorAll("[data-hold]")].map((row) => [row.dataset.hold, row]));
  const shown = rows();
  // Rows that new ones moved to the next page were not part of the response.
  const last = told.dataset.pageEnd ? shown.findLastIndex((row) => arrived.has(row.dataset.hold)) : shown.length;
  for (const row of shown.slice(0, last + 1).filter(asked)) {
    const now = arrived.get(row.dataset.hold);
    row.classList.toggle("gone", !now);
    if (now) update(row, now);
  }
  const known = new Set(rows().map((row) => row.dataset.hold));
  const others = [...fresh].filter(([, row]) => !asked(row));
  fresh = new Map([...[...arrived].filter(([hold]) => !known.has(hold)), ...others]);
  if (!runs && !told.dataset.pageEnd) list().dataset.pageEnd = "";
  if (fresh.size && !live().length) showNew();
  else showLine();
  document.dispatchEvent(new CustomEvent("holdpoint:rows"));
}

/** Update a row in place; its link keeps focus and selection. */
function update(row, now) {
  const link = linkOf(row);
  const inner = linkOf(now).innerHTML;
  if (link.innerHTML !== inner) link.replaceChildren(...document.importNode(linkOf(now), true).childNodes);
  row.className = now.className;
  row.dataset.version = now.dataset.version;
  row.dataset.risk = now.dataset.risk;
}

// The counts on the tabs cost the server more than a row, and users wait for rows: the counts are fetched a
// moment after the row, once for all events in between, and for at most half of the time.
function countSoon() {
  uncounted = true;
  if (!counting) countAfter(COUNT_AFTER_MS);
}

function countAfter(ms) {
  counting = true;
  setTimeout(count, ms);
}

async function count() {
  uncounted = false;
  const [number, begun] = [++tabsAsked, performance.now()];
  try {
    takeTabs(await part("queue-tabs"), number);
  } catch {
    lookAgain();
  }
  counting = false;
  if (uncounted) countAfter(Math.max(COUNT_AFTER_MS, performance.now() - begun));
}

/** `number` is that of the request: the tabs may already show the response to a later one. */
function takeTabs(page, number) {
  if (number < tabsOf) return;
  tabsOf = number;
  const tabs = page.getElementById("queue-tabs");
  for (const tab of tabs.querySelectorAll("[data-tab]")) {
    const here = document.querySelector(`#queue-tabs [data-tab="${CSS.escape(tab.dataset.tab)}"] .count`);
    const now = tab.querySelector(".count");
    if (here && now) here.textContent = now.textContent;
  }
  showCount(tabs.dataset.waiting);
}

/** `count` is the server's text: "12", or "1,000+". */
function showCount(count) {
  const badge = document.getElementById("rail-count");
  badge.textContent = count;
  badge.hidden = count === "0";
  document.title = document.title.replace(/^\s*(\(\d[^)]*\))?\s*/, badge.hidden ? "" : `(${count}) `);
}

function showLine() {
  const line = list().querySelector("[data-new-rows]");
  line.hidden = fresh.size === 0;
  line.querySelector("button").textContent = fill(ngettext("%(n)s new, show", "%(n)s new, show", fresh.size), { n: fresh.size });
  if (fresh.size > announced) announce(fill(ngettext("%(n)s new review.", "%(n)s new reviews.", fresh.size), { n: fresh.size }));
  announced = fresh.size;
}

/** Show the rows behind the line and remove closed ones; returns the first new row. */
function showNew() {
  const holder = list().querySelector("[data-rows]");
  for (const row of rows()) if (row.classList.contains("gone") && row !== openRow()) row.remove();
  const added = [...fresh.values()].map((row) => document.importNode(row, true));
  place(holder, added);
  holder.hidden = rows().length === 0;
  list().querySelector("[data-empty]")?.remove();
  fresh = new Map();
  showLine();
  return added[0];
}

/** New rows stand where the order of the list has them. */
function place(holder, added) {
  if (list().dataset.order === "oldest") holder.append(...added);
  else holder.prepend(...added);
}

// An event refreshes its rows at once, also while other runs are being refreshed.  Refreshes take at most half of
// the time: above that, the next one waits and includes all events in between, so that a burst costs each browser
// few requests and a busy server gets fewer.  After a failed refresh the whole list is fetched.
function onNews(event) {
  const { executionId: run, holdId, seq, type } = event?.detail ?? {};
  if (type === "workflow_start" || (run && seq <= (versions.get(run) ?? -1))) return;
  if (isOver(event?.detail ?? {}) && !hasRow(run)) return;
  const isPresence = type === "review_presence";
  if (isPresence && !rowOf(holdId)) return;
  if (run) changed.set(run, Math.max(changed.get(run) ?? 0, seq ?? (isPresence ? 0 : Infinity)));
  else everything = true;
  if (isPresence) setTimeout(askAgain, PRESENCE_MS);
  else ask();
}

const hasRow = (run) => [...rows(), ...fresh.values()].some((row) => row.dataset.execution === run);

/** The run is complete, or a decision of this page takes effect: it changes rows of this run only, and no count. */
function isOver({ type, status, holdId }) {
  if (type === "workflow_complete") return status === "COMPLETED";
  return (type === "workflow_resumed" || type === "hold_decided") && decidedHere.has(holdId);
}

function ask() {
  if (deciding || timer !== null || looks.size >= MOST_LOOKS || looks.has(null)) return;
  timer = setTimeout(look, Math.max(0, Math.max(notBefore, paid - AHEAD_MS) - performance.now()));
}

/** What the next refresh fetches: runs, null for the whole list, or undefined for nothing now. */
function wanted() {
  if (everything || missed || changed.size > MOST_RUNS) return looks.size ? undefined : null;
  const free = [...changed.keys()].filter((run) => ![...looks].some((runs) => runs.has(run)));
  return free.length ? new Set(free) : undefined;
}

async function look() {
  timer = null;
  if (deciding) return; // its answer asks again
  const runs = wanted();
  if (runs === undefined) return; // when what is under way has ended, it asks again
  const counts = [...(runs ?? [])].some((run) => changed.get(run) > 0);
  if (runs) for (const run of runs) changed.delete(run);
  else [everything, changed] = [false, new Map()];
  looks.add(runs);
  const begun = performance.now();
  const answered = await refresh(runs, counts).then(() => true, () => false);
  const now = performance.now();
  looks.delete(runs);
  paid = Math.max(paid, begun) + Math.max(LEAST_COST_MS, 2 * (now - begun));
  if (answered && !runs) missed = false;
  if (!answered) lookAgain();
  else if (missed || everything || changed.size) ask();
}

/** A request failed: fetch everything after a while. */
function lookAgain() {
  [missed, notBefore] = [true, performance.now() + RETRY_MS];
  ask();
}

// --- after a decision -----------------------------------------------------------------------------

/** The row after this one: the next review of the same run, else the next in the list. */
function following(row, run) {
  const reachable = live();
  const place = reachable.indexOf(row);
  const sameRun = reachable.find((each) => each !== row && each.dataset.execution === run);
  return sameRun ?? reachable[place + 1] ?? reachable[place - 1];
}

/** The decision names the review that follows: its answer has that review, and what changed in the list. */
function nameNext({ detail: { elt, parameters } }) {
  if (!elt.matches("[data-decision-form]")) return;
  const { hold, execution } = document.getElementById("decision").dataset;
  const next = following(rowOf(hold), execution);
  if (!next || !wide.matches) return;
  parameters.queue_next = next.dataset.hold;
  parameters.queue_query = location.search.slice(1);
  parameters.queue_until = list().dataset.pageEnd;
}

/** Not the next part of a long payload nor a comparison, which the same form asks for. */
const isDecision = ({ detail: { requestConfig } }) =>
  Boolean(requestConfig?.elt?.matches("[data-decision-form]")) &&
  !["more", "compare"].some((name) => requestConfig.formData.has(name));

function sending(event) {
  if (!isDecision(event)) return;
  deciding = true;
  chosen = null;
  const row = openRow();
  if (!row || row.dataset.hold === document.getElementById("decision").dataset.hold) return;
  // Another review is about to replace this one: the answer would have no place.
  chosen = row;
  window.htmx.trigger("#detail", "htmx:abort");
}

/** The next review is swapped in before this: `decided` goes on then. */
function sent(event) {
  if (!isDecision(event) || answer) return;
  [deciding, chosen] = [false, null];
  askAgain();
}

function askAgain() {
  if (missed || everything || changed.size) ask();
}

function answered({ detail: { xhr } }) {
  if (xhr.getResponseHeader("HX-Reselect") !== "#decision") return;
  answer = new DOMParser().parseFromString(xhr.responseText, "text/html");
  document.body.dataset.advancing = "";
}

/** Only the answer to a decision of this page goes on to the next review; news from others never does. */
function decided(event) {
  if (!event.detail.xhr?.getResponseHeader("X-Holdpoint-Decided")) return;
  const article = document.getElementById("decision");
  if (!article) return;
  const page = answer;
  answer = null;
  const verdict = page?.querySelector("[data-decided]") ?? article;
  const row = rowOf(verdict.dataset.hold);
  if (row) removed.set(row.dataset.hold, row.nextElementSibling);
  const next = page ? rowOf(article.dataset.hold) : following(row, verdict.dataset.execution);
  const said = article.querySelector("#decision-status .notice strong .status")?.lastChild;
  const what = page ? verdict.dataset.sentence : said?.textContent.trim();
  const undo = undoOf(verdict);
  if (undo && row) undoToast(what || gettext("Recorded."), undo, () => bringBack(row));
  else toast(what || gettext("Recorded."), { href: linkOf(row ?? next)?.href ?? article.dataset.statusUrl, label: gettext("Open it again") });
  if (page ? verdict.dataset.sentence : article.dataset.state === "decided") decidedHere.add(verdict.dataset.hold);
  row?.remove();
  list().querySelector("[data-rows]").hidden = rows().length === 0;
  const wanted = chosen?.isConnected ? chosen : null;
  [deciding, chosen] = [false, null];
  if (wanted) open(wanted);
  else if (next && next !== row) {
    if (page) choose(next);
    else {
      document.body.dataset.advancing = "";
      open(next);
    }
    if (next.dataset.execution !== verdict.dataset.execution) sayRun(next);
  }
  if (page) saveDraft(verdict.dataset.hold, null);
  // A refresh that began before the decision would bring its row back.
  if (page && looks.size === 0) takeChanges(page, verdict.dataset);
  else onNews();
  askAgain();
}

/** Show the rows and counts that came with the answer; news about them is no news any more. */
function takeChanges(page, { execution, version }) {
  versions.set(execution, Number(version));
  if (changed.get(execution) <= Number(version)) changed.delete(execution);
  take(page.getElementById("queue-list"), new Set([execution]));
  takeTabs(page, ++tabsAsked);
}

/** The next review is of another run: nobody should take it for the run they know. */
function sayRun(row) {
  const run = row.querySelector(".in-run")?.textContent.trim();
  const words = fill(gettext("Now in another run: %(run)s."), { run });
  announce(words);
  const box = document.getElementById("toasts").lastElementChild;
  const line = document.createElement("p");
  line.dataset.anotherRun = "";
  line.textContent = words;
  box?.append(line);
}

/** Put a row back before the one that followed it, or first. */
function before(row) {
  const next = removed.get(row.dataset.hold);
  const holder = list().querySelector("[data-rows]");
  holder.insertBefore(row, next?.parentElement === holder ? next : holder.firstElementChild);
}

/** A decision was taken back: its row is where it was, and its review is open beside. */
function bringBack(row) {
  const there = rowOf(row.dataset.hold);
  if (!there) before(row);
  const back = there ?? row;
  back.classList.remove("gone");
  list().querySelector("[data-rows]").hidden = false;
  list().querySelector("[data-empty]")?.remove();
  fresh.delete(back.dataset.hold);
  decidedHere.delete(back.dataset.hold);
  showLine();
  open(back);
  onNews();
}

if (queue) {
  list().addEventListener("click", clicked);
  document.getElementById("detail").addEventListener("click", openNext);
  list().addEventListener("pointerover", loadAhead, { once: true });
  document.addEventListener("keydown", loadAhead, { once: true });
  announceKeys("aerfcm"); // of decision.js
  document.addEventListener("htmx:configRequest", nameNext);
  document.addEventListener("htmx:beforeSend", sending);
  document.addEventListener("htmx:afterRequest", sent);
  document.addEventListener("htmx:beforeSwap", answered);
  document.addEventListener("htmx:afterSettle", decided);
  document.body.addEventListener("holdpoint:news", onNews);
  document.body.addEventListener("holdpoint:poll", onNews);
  onKey("j", () => move(1));
  onKey("k", () => move(-1));
  onKey("s", skip);
  onKey("Escape", () => {
    const row = openRow();
    if (!row) return false;
    linkOf(row).focus();
    return true;
  });
}
