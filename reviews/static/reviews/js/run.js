// A run that is watched: on news its fragments are fetched again, and what was unfolded stays unfolded.

const SETTLE_MS = 200;
let timer = null;
let unfolded = new Set();
let scrolled = null;

const picture = () => document.querySelector(".dag-scroll");

function refreshSoon() {
  clearTimeout(timer);
  timer = setTimeout(() => document.body.dispatchEvent(new CustomEvent("holdpoint:refresh")), SETTLE_MS);
}

function remember(event) {
  if (event.target.id !== "run-live") return;
  unfolded = new Set([...event.target.querySelectorAll("details[open][id]")].map((item) => item.id));
  scrolled = picture()?.scrollLeft ?? null;
}

/** A plan wider than its frame opens at the layer that is being worked on. */
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
  const version = document.querySelector("[data-run-version]");
  if (version && live.dataset.version) version.value = live.dataset.version;
}

/** A click on a box in the plan unfolds that task below. */
function openTask(event) {
  const link = event.target.closest("[data-task-link]");
  const target = link && document.getElementById(link.getAttribute("href").slice(1));
  if (!target || target.tagName !== "DETAILS") return;
  event.preventDefault();
  target.open = true;
  target.querySelector("summary").focus();
  target.scrollIntoView({ block: "nearest" });
}

document.body.addEventListener("holdpoint:news", refreshSoon);
document.body.addEventListener("holdpoint:poll", refreshSoon);
document.body.addEventListener("htmx:beforeSwap", remember);
document.body.addEventListener("htmx:afterSettle", restore);
document.addEventListener("click", openTask);
showCurrentLayer();
