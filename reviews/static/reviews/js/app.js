// Behaviour of every page: relative times, menus, shortcuts, connection state, and the press guard.
import { startBell } from "./bell.js";
import { startClock } from "./clock.js";
import { startDrafts } from "./drafts.js";
import { startKeys } from "./keys.js";
import { startLists } from "./lists.js";
import { startSocket } from "./socket.js";
import { startPressGuard } from "./press-guard.js";
import { startRequests } from "./request.js";
import { fill, gettext } from "./words.js";

function closeMenus(event) {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (event.type === "keydown" || !menu.contains(event.target)) menu.open = false;
  }
}

document.addEventListener("click", closeMenus);
document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenus(event));

// An error that is a page of its own is no answer of a form: see config/web/error_pages.py.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.xhr.status < 400 || detail.xhr.getResponseHeader("HX-Reswap") !== "none") return;
  detail.shouldSwap = false;
  detail.isError = true;
});

// htmx leaves the page unchanged after an error response, so show a message.
document.addEventListener("htmx:responseError", (event) => {
  import("./toast.js").then(({ toast }) =>
    toast(fill(gettext("The server answered with an error (%(status)s). Nothing was changed."), { status: event.detail.xhr.status })),
  );
});
document.addEventListener("htmx:sendError", () => {
  import("./toast.js").then(({ toast }) => toast(gettext("No connection. Nothing was sent; try again.")));
});

startPressGuard();
startClock();
startKeys();
startLists();
startBell();
startDrafts();
startRequests();
// Connect after all modules have loaded: events that arrive earlier would have no listener.
// A page without its own socket connects for the bell.
document.addEventListener("DOMContentLoaded", () =>
  startSocket(document.querySelector("[data-socket]") ?? document.querySelector("[data-bell]")),
);
