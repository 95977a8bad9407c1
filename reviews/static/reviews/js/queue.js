// The queue: rows that never jump, new ones behind a line, the next review opening by itself.
import { onKey } from "./keys.js";
import { announce, toast } from "./toast.js";
import { undoOf, undoToast } from "./undo.js";
import { fill, gettext, ngettext } from "./words.js";

const SETTLE_MS = 150;
const wide = window.matchMedia("(min-width: 1100px)");
const queue = document.getElementById("queue");
let fresh = new Map();
let timer = null;

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
  if (event.target.closest("[data-show-new]")) return showNew();
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

// --- news -----------------------------------------------------------------------------------------

async function refresh() {
  const response = await fetch(location.href, { headers: { "HX-Request": "true", "HX-Target": "queue-list" } });
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const told = page.getElementById("queue-list");
  if (!told) return;
  take(told);
  takeTabs(page.getElementById("queue-tabs"));
  showCount(told.dataset.waiting);
}

function take(told) {
  const arrived = new Map([...told.querySelectorAll("[data-hold]")].map((row) => [row.dataset.hold, row]));
  for (const row of rows()) {
    const now = arrived.get(row.dataset.hold);
    row.classList.toggle("gone", !now);
    if (now) update(row, now);
  }
  const known = new Set(rows().map((row) => row.dataset.hold));
  fresh = new Map([...arrived].filter(([hold]) => !known.has(hold)));
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

function takeTabs(tabs) {
  for (const tab of tabs?.querySelectorAll("[data-tab]") ?? []) {
    const here = document.querySelector(`#queue-tabs [data-tab="${CSS.escape(tab.dataset.tab)}"] .count`);
    const count = tab.querySelector(".count");
    if (here && count) here.textContent = count.textContent;
  }
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
  if (fresh.size) announce(fill(ngettext("%(n)s new review.", "%(n)s new reviews.", fresh.size), { n: fresh.size }));
}

/** Bring in what waited behind the line, and clear away what is settled. */
function showNew() {
  const holder = list().querySelector("[data-rows]");
  for (const row of rows()) if (row.classList.contains("gone") && row !== openRow()) row.remove();
  const added = [...fresh.values()].map((row) => document.importNode(row, true));
  holder.prepend(...added);
  holder.hidden = rows().length === 0;
  list().querySelector("[data-empty]")?.remove();
  fresh = new Map();
  showLine();
  if (document.activeElement === document.body && added.length) linkOf(added[0]).focus();
}

function onNews() {
  clearTimeout(timer);
  timer = setTimeout(() => refresh().catch(() => {}), SETTLE_MS);
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
  onKey("Escape", () => {
    const row = openRow();
    if (!row) return false;
    linkOf(row).focus();
    return true;
  });
}
