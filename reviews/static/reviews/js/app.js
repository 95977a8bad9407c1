// What every page needs: clocks that stay true, menus that close, shortcuts, the connection's state, no click lost.
import { startBell } from "./bell.js";
import { startClock } from "./clock.js";
import { startDrafts } from "./drafts.js";
import { startKeys } from "./keys.js";
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

// A server that answers with an error keeps the page as it was; say so instead of staying silent.
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
startBell();
startDrafts();
startRequests();
// Once every module of the page listens, also one that was slow to come: earlier news would reach nobody.
// A page without news of its own listens for the bell's.
document.addEventListener("DOMContentLoaded", () =>
  startSocket(document.querySelector("[data-socket]") ?? document.querySelector("[data-bell]")),
);
