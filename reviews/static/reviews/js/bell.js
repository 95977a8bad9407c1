// The bell: the number of unread notices, updated over the page's socket, and the newest notices when it is opened.
import { send } from "./request.js";
import { announce } from "./toast.js";
import { fill, ngettext } from "./words.js";

const MOST = 100;
const bell = document.querySelector("[data-bell]");
const items = bell?.querySelector("[data-bell-items]");
const badge = bell?.querySelector("[data-bell-count]");

function words(unread) {
  return unread >= MOST ? `${MOST - 1}+` : String(unread);
}

function show(unread) {
  badge.textContent = words(unread);
  badge.hidden = unread === 0;
}

/** Announce a higher number to screen readers. */
function ring(unread) {
  const before = badge.hidden ? 0 : Number.parseInt(badge.textContent, 10);
  show(unread);
  if (unread > before) {
    const text = ngettext("%(count)s unread notification", "%(count)s unread notifications", unread);
    announce(fill(text, { count: words(unread) }));
  }
  if (bell.open) load();
}

function load() {
  items.setAttribute("aria-busy", "true");
  const done = () => items.removeAttribute("aria-busy");
  window.htmx.ajax("GET", bell.dataset.bellUrl, { source: items, target: items, swap: "innerHTML" }).then(done, done);
}

/** Without a socket, poll: the response is the list itself. */
async function look() {
  const response = await send(bell.dataset.bellUrl);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const list = page.querySelector("[data-bell-unread]");
  if (list) ring(Number(list.dataset.bellUnread));
}

function swapped(event) {
  const list = event.target === items && items.querySelector("[data-bell-unread]");
  if (!list) return;
  show(Number(list.dataset.bellUnread));
  // The pressed button was removed, so keep the focus in the list.
  if (bell.open && document.activeElement === document.body) items.querySelector("a, button")?.focus();
}

/** Escape closes the list and returns the focus to the bell. */
function escape(event) {
  if (event.key !== "Escape" || !bell.open) return;
  const inside = items.contains(document.activeElement);
  bell.open = false;
  if (inside) bell.querySelector("summary").focus();
}

export function startBell() {
  if (!bell) return;
  bell.addEventListener("toggle", () => bell.open && load());
  bell.addEventListener("keydown", escape);
  document.addEventListener("htmx:afterSwap", swapped);
  document.body.addEventListener("holdpoint:bell", (event) => ring(event.detail.unread));
  document.body.addEventListener("holdpoint:poll", () => look().catch(() => {}));
}
