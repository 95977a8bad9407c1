// Requests of the page's own scripts, and the way to the sign-in page once the session has ended.
import { keepFields } from "./drafts.js";

/** fetch() as htmx would do it.  If the server names a page to open, it is opened and no answer comes. */
export async function send(url, options = {}) {
  const headers = { "HX-Request": "true", "HX-Current-URL": location.href, ...options.headers };
  const response = await fetch(url, { ...options, headers });
  const page = response.headers.get("HX-Redirect");
  if (!page) return response;
  keepFields();
  location.assign(page);
  return new Promise(() => {});
}

/** The server has closed the page's socket because nobody is signed in: ask for a page that says where to go. */
export function signInAgain() {
  const bell = document.querySelector("[data-bell]");
  if (bell) send(bell.dataset.bellUrl).catch(() => {});
}

/** htmx opens the named page by itself; what is written in fields is kept before. */
export function startRequests() {
  document.addEventListener("htmx:beforeOnLoad", ({ detail: { xhr } }) => {
    if (xhr.getResponseHeader("HX-Redirect")) keepFields();
  });
}
