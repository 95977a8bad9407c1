// Short messages: a toast at the foot of the page, and announcements to screen readers.
import { whenReleased } from "./press-guard.js";

const LASTS_MS = 6000;

/** Show `text` for a few seconds; `link` is {href, label}.  Returns the element. */
export function toast(text, link = null, lasts = LASTS_MS) {
  const box = document.createElement("div");
  box.className = "toast";
  box.textContent = text;
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link.href;
    anchor.textContent = link.label;
    box.append(" ", anchor);
  }
  document.getElementById("toasts")?.append(box);
  setTimeout(() => whenReleased(() => box.remove()), lasts);
  return box;
}

/** Announce `text` to screen readers. */
export function announce(text) {
  const region = document.getElementById("announce");
  if (region) region.textContent = text;
}
