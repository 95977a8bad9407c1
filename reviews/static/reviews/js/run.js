// The run page: events refresh its fragments, and open details stay open.
import { tick } from "./clock.js";

const SETTLE_MS = 200;
const RESULTS = ["task_complete", "task_error", "task_escalated"];
let timer = null;
let unfolded = new Set();
let scrolled = null;
// Task id → start time in ms as reported by the worker, which is more exact than the journal.
const started = new Map();

/** A refresh is under way; another one was asked for since. */
let refreshing = false;
let refreshAgain = false;

const picture = () => document.querySelector(".dag-scroll");

function refreshSoon() {
  clearTimeout(timer);
  timer = setTimeout(() => document.body.dispatchEvent(new CustomEvent("holdpoint:refresh")), SETTLE_MS);
}

const isRefresh = ({ detail: { requestConfig } }) => requestConfig?.elt?.id === "run-live";

function began(event) {
  if (isRefresh(event)) [refreshing, refreshAgain] = [true, false];
}

/** The answer may be older than what asked for a refresh since, and htmx drops requests of an element that it replaces. */
function ended(event) {
  if (!isRefresh(event) || !refreshing) return;
  refreshing = false;
  if (refreshAgain) refreshSoon();
}

function remember(event) {
  if (event.target.id !== "run-live") return;
  unfolded = new Set([...event.target.querySelectorAll("details[open][id]")].map((item) => item.id));
  scrolled = picture()?.scrollLeft ?? null;
}

/** Open tasks of a long plan keep their data when the page is refreshed. */
function nameOpenTasks({ detail: { elt, parameters } }) {
  if (elt.id !== "run-live") return;
  const opened = [...elt.querySelectorAll("details.task[open]")].map((task) => task.id.slice("task-".length));
  if (opened.length) parameters.open = opened.join(",");
}

/** Scroll a plan that is wider than its frame to the active layer. */
function showCurrentLayer() {
  const frame = picture();
  const head = frame?.querySelector(".layer-head.current");
  if (!head) return;
  frame.scrollLeft = scrolled ?? Math.max(0, Number(head.getAttribute("x")) - frame.clientWidth / 2);
}

function restore() {
  const live = document.getElementById("run-live");
  if (!live) return;
  for (const id of unfolded) {
    const item = document.getElementById(id);
    if (item) item.open = true;
  }
  showCurrentLayer();
  showStarted();
  mark();
  const version = document.querySelector("[data-run-version]");
  if (version && live.dataset.version) version.value = live.dataset.version;
}

// --- running tasks ----------------------------------------------------------------------------

function onNews(event) {
  const { type, nodeId, timestamp } = event.detail ?? {};
  if (type === "task_started") {
    started.set(nodeId, timestamp);
    if (showStarted(nodeId)) return;
  } else if (RESULTS.includes(type)) started.delete(nodeId);
  refreshSoon();
}

/** Set the clocks of running tasks; returns false if `wanted` is not shown as running yet. */
function showStarted(wanted = null) {
  let found = wanted === null;
  for (const task of document.querySelectorAll("[data-running]")) {
    const at = started.get(task.dataset.running);
    if (at === undefined) continue;
    task.querySelector('time[data-clock="for"]').dateTime = new Date(at).toISOString();
    found ||= task.dataset.running === wanted;
  }
  tick('time[data-clock="for"]');
  return found;
}

// --- deep links ---------------------------------------------------------------------------------

const ENTRY = /^#(e|task-)[\w.-]+$/;
const NAMED = /^#(?:e(\d+)|task-([\w.-]+))$/;
const linked = () => (ENTRY.test(location.hash) ? document.getElementById(location.hash.slice(1)) : null);

/** Mark the entry named in the URL, also after a refresh. */
function mark() {
  const entry = linked();
  for (const other of document.querySelectorAll("li.marked")) other.classList.toggle("marked", other === entry);
  if (entry?.tagName === "LI") entry.classList.add("marked");
}

/** A long run's page that has the task or the event that the URL names, if this one has not. */
function elsewhere() {
  const [, event, task] = location.hash.match(NAMED) ?? [];
  const address = new URL(location.href);
  const [key, value] = event ? ["since", event] : ["task", task];
  if (!value || address.searchParams.get(key) === value) return null;
  address.searchParams.set(key, value);
  return address;
}

function follow() {
  const entry = linked();
  const address = entry ? null : elsewhere();
  if (address) location.replace(address);
  mark();
  // Open a task, but not the JSON of an event.
  if (entry?.tagName === "DETAILS") entry.open = true;
  entry?.scrollIntoView({ block: "center" });
}

/** A click on a task in the plan opens its details below. */
function openTask(event) {
  const link = event.target.closest("[data-task-link]");
  const target = link && document.getElementById(link.getAttribute("href").slice(1));
  if (!target || target.tagName !== "DETAILS") return;
  event.preventDefault();
  target.open = true;
  target.querySelector("summary").focus();
  target.scrollIntoView({ block: "nearest" });
}

document.body.addEventListener("holdpoint:news", onNews);
document.body.addEventListener("holdpoint:poll", refreshSoon);
document.body.addEventListener("htmx:configRequest", nameOpenTasks);
document.body.addEventListener("htmx:beforeSend", began);
document.body.addEventListener("htmx:afterRequest", ended);
document.body.addEventListener("htmx:beforeSwap", remember);
document.body.addEventListener("htmx:afterSettle", restore);
// Before htmx begins the request that the event asks for.
document.addEventListener("holdpoint:refresh", () => (refreshAgain = refreshing), { capture: true });
document.addEventListener("click", openTask);
window.addEventListener("hashchange", follow);
showCurrentLayer();
follow();
