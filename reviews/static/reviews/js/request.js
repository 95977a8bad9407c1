// Requests of the page's scripts, and the redirect to the sign-in page after the session has ended.
import { keepFields } from "./drafts.js";

/** Several requests can end at once: the page is left once. */
let leaving = false;

/** fetch() with htmx's headers.  If the server names a page to open, open it and never resolve. */
export async function send(url, options = {}) {
  const headers = { "HX-Request": "true", "HX-Current-URL": location.href, ...options.headers };
  const response = await fetch(url, { ...options, headers });
  const page = response.headers.get("HX-Redirect");
  if (!page) return response;
  if (!leaving) {
    leaving = true;
    keepFields();
    location.assign(page);
  }
  return new Promise(() => {});
}

/** The server closed the socket because nobody is signed in: request a page, which redirects. */
export function signInAgain() {
  const bell = document.querySelector("[data-bell]");
  if (bell) send(bell.dataset.bellUrl).catch(() => {});
}

/** htmx opens the named page by itself; save unsent text first. */
export function startRequests() {
  document.addEventListener("htmx:beforeOnLoad", ({ detail: { xhr } }) => {
    if (xhr.getResponseHeader("HX-Redirect")) keepFields();
  });
}
