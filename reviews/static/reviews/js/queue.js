// The queue: rows that never jump, new ones behind a line, the next review opening by itself.
import { onKey } from "./keys.js";
import { released } from "./press-guard.js";
import { send } from "./request.js";
import { announce, toast } from "./toast.js";
import { undoOf, undoToast } from "./undo.js";
import { fill, gettext, ngettext } from "./words.js";

const LEAST_COST_MS = 50;
/** How far looks may run ahead of what they cost: a few at once, before they keep their distance. */
const AHEAD_MS = 400;
const MOST_LOOKS = 2;
const RETRY_MS = 5000;
const COUNT_AFTER_MS = 200;
/** News of more runs than this at once, and the whole list is asked for. */
const MOST_RUNS = 25;
const wide = window.matchMedia("(min-width: 1100px)");
const queue = document.getElementById("queue");
let fresh = new Map();
/** How many new rows have been announced. */
let announced = 0;
/** Runs that news came of since the last look; `everything` when the news names none. */
let changed = new Set();
let everything = false;
/** Looks under way: the runs that each asks for, or null for the whole list. */
const looks = new Set();
let missed = false;
/** Until when the looks made so far are paid for; and no look before `notBefore`. */
let paid = 0;
let notBefore = 0;
let timer = null;
/** Questions for the numbers on the tabs: how many were asked, and which one's answer is shown. */
let tabsAsked = 0;
let tabsOf = 0;
/** A question is due or under way; there was news since it was asked. */
let counting = false;
let uncounted = false;

const list = () => document.getElementById("queue-list");
const rows = () => [...list().querySelectorAll("[data-hold]")];
const live = () => rows().filter((row) => !row.classList.contains("gone"));
const rowOf = (hold) => rows().find((row) => row.dataset.hold === hold);
const linkOf = (row) => row.querySelector("[data-open]");
const openRow = () => list().querySelector("[data-open][aria-current]")?.closest("[data-hold]");

// --- opening --------------------------------------------------------------------------------------

/** Show the row's review: beside the list where there is room, else as its own page. */
function open(row) {
  const link = linkOf(row);
  if (!wide.matches) {
    location.assign(link.href);
    return;
  }
  for (const other of list().querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  row.scrollIntoView({ block: "nearest" });
  const address = new URL(location.href);
  address.searchParams.set("hold", row.dataset.hold);
  history.replaceState(null, "", address);
  const detail = document.getElementById("detail");
  detail.setAttribute("aria-busy", "true");
  const done = () => detail.removeAttribute("aria-busy");
  window.htmx.ajax("GET", link.href, { target: "#detail", swap: "innerHTML show:none" }).then(done, done);
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

/** Open the review behind the open one, and the first one after the last. */
function skip() {
  const reachable = live();
  const place = reachable.indexOf(openRow());
  if (!reachable.length) return false;
  if (place < reachable.length - 1) return move(1);
  announce(gettext("That was the last review; this is the first."));
  return move(-reachable.length);
}

// --- news -----------------------------------------------------------------------------------------

/** Ask for the rows of these runs, or for the whole list and its tabs when `runs` is null. */
async function refresh(runs) {
  const number = runs ? 0 : ++tabsAsked;
  const page = await part("queue-list", runs && { changed: [...runs].join(","), until: list().dataset.pageEnd });
  await released();
  take(page.getElementById("queue-list"), runs);
  if (runs) countSoon();
  else takeTabs(page, number);
}

/** A part of this page as it is now, in a document of its own. */
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
  // Of rows that new ones have pushed off the page that was told, nothing was said.
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

/** Change a row's words in place; its link keeps focus and mark. */
function update(row, now) {
  const link = linkOf(row);
  const inner = linkOf(now).innerHTML;
  if (link.innerHTML !== inner) link.replaceChildren(...document.importNode(linkOf(now), true).childNodes);
  row.className = now.className;
  row.dataset.version = now.dataset.version;
}

// The numbers on the tabs cost the server more than a row, for which somebody waits: they are asked for a moment
// after the row is there, for all that came meanwhile together, and half of the time at most.
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

/** `number` says which question this answers: of a later one the tabs may show the answer already. */
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

/** `count` is in the words of the server: "12", or "1,000+". */
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

/** Bring in what waited behind the line, and clear away what is settled; gives the first new row. */
function showNew() {
  const holder = list().querySelector("[data-rows]");
  for (const row of rows()) if (row.classList.contains("gone") && row !== openRow()) row.remove();
  const added = [...fresh.values()].map((row) => document.importNode(row, true));
  holder.prepend(...added);
  holder.hidden = rows().length === 0;
  list().querySelector("[data-empty]")?.remove();
  fresh = new Map();
  showLine();
  return added[0];
}

// News is looked at at once, also while a look at other runs is under way.  Looks take half of the time at
// most: when they have run ahead of what they cost, the next one waits and takes all that came meanwhile, so that
// a burst costs each browser few requests, and a server that is busy is asked less.  After a look that failed the
// whole list is asked for.
function onNews(event) {
  if (event?.detail?.type === "workflow_start") return;
  const run = event?.detail?.executionId;
  if (run) changed.add(run);
  else everything = true;
  ask();
}

function ask() {
  if (timer !== null || looks.size >= MOST_LOOKS || looks.has(null)) return;
  timer = setTimeout(look, Math.max(0, Math.max(notBefore, paid - AHEAD_MS) - performance.now()));
}

/** What the next look asks for: runs, null for the whole list, or undefined for nothing now. */
function wanted() {
  if (everything || missed || changed.size > MOST_RUNS) return looks.size ? undefined : null;
  const free = [...changed].filter((run) => ![...looks].some((runs) => runs.has(run)));
  return free.length ? new Set(free) : undefined;
}

async function look() {
  timer = null;
  const runs = wanted();
  if (runs === undefined) return; // when what is under way has ended, it asks again
  if (runs) for (const run of runs) changed.delete(run);
  else [everything, changed] = [false, new Set()];
  looks.add(runs);
  const begun = performance.now();
  const answered = await refresh(runs).then(() => true, () => false);
  const now = performance.now();
  looks.delete(runs);
  paid = Math.max(paid, begun) + Math.max(LEAST_COST_MS, 2 * (now - begun));
  if (answered && !runs) missed = false;
  if (!answered) lookAgain();
  else if (missed || everything || changed.size) ask();
}

/** What was asked for did not come: after a while everything is asked for. */
function lookAgain() {
  [missed, notBefore] = [true, performance.now() + RETRY_MS];
  ask();
}

// --- after a decision -----------------------------------------------------------------------------

function decided(event) {
  const { xhr, requestConfig } = event.detail;
  if (requestConfig?.verb !== "post" || !event.detail.successful || xhr.status >= 300) return;
  const article = document.getElementById("decision");
  if (!article || article.dataset.settled !== "yes") return;
  const row = rowOf(article.dataset.hold);
  const reachable = live();
  const place = reachable.indexOf(row);
  const next = reachable[place + 1] ?? reachable[place - 1];
  const said = article.querySelector("#decision-status .notice strong .status")?.lastChild;
  const what = said?.textContent.trim();
  const undo = undoOf(article);
  if (undo && row) undoToast(what || gettext("Recorded."), undo, () => bringBack(row));
  else toast(what || gettext("Recorded."), { href: linkOf(row ?? next)?.href ?? article.dataset.statusUrl, label: gettext("Open it again") });
  row?.remove();
  list().querySelector("[data-rows]").hidden = rows().length === 0;
  if (next && next !== row) {
    document.body.dataset.advancing = "";
    open(next);
  }
  onNews();
}

/** A decision was taken back: its row is where it was on top, and its review is open beside. */
function bringBack(row) {
  const there = rowOf(row.dataset.hold);
  if (!there) list().querySelector("[data-rows]").prepend(row);
  const back = there ?? row;
  back.classList.remove("gone");
  list().querySelector("[data-rows]").hidden = false;
  list().querySelector("[data-empty]")?.remove();
  fresh.delete(back.dataset.hold);
  showLine();
  open(back);
  onNews();
}

if (queue) {
  list().addEventListener("click", clicked);
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
