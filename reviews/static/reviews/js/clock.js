// Updates relative times while a page is open, with the wording of duration_words() on the server.
import { fill, gettext, ngettext } from "./words.js";

const DAY = 86400;
const UNITS = [
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];
const EVERY_MS = 10000;
const RUNNING_EVERY_MS = 1000;

/** Seconds as one rounded-down unit, `now` below one second. */
export function durationWords(seconds) {
  const whole = Math.floor(Math.abs(seconds));
  if (whole >= DAY) {
    const n = Math.floor(whole / DAY);
    return fill(ngettext("%(n)s day", "%(n)s days", n), { n });
  }
  for (const [size, unit] of UNITS) if (whole >= size) return `${Math.floor(whole / size)} ${unit}`;
  return gettext("now");
}

/** Seconds until a deadline as one rounded unit, as remaining_text() on the server. */
export function remainingWords(seconds) {
  const [, unit] = [[60, 1], [3600, 60], [DAY, 3600], [Infinity, DAY]].find(([size]) => seconds < size);
  return durationWords(Math.round(seconds / unit) * unit);
}

/** Seconds as a running clock: `12 s`, `1 min 20 s`, `2 h 5 min`. */
export function elapsedWords(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

function words(element) {
  const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
  if (element.dataset.clock === "for") return elapsedWords(seconds);
  if (element.dataset.clock === "ago") {
    const span = durationWords(seconds);
    return Math.abs(seconds) < 1 ? span : fill(gettext("%(span)s ago"), { span });
  }
  return seconds < 0 ? fill(gettext("%(span)s left"), { span: remainingWords(-seconds) }) : gettext("overdue");
}

export function tick(selector = "time[data-clock]") {
  for (const element of document.querySelectorAll(selector)) {
    const text = words(element);
    if (element.textContent !== text) element.textContent = text;
  }
}

export function startClock() {
  setInterval(() => tick(), EVERY_MS);
  setInterval(() => tick('time[data-clock="for"]'), RUNNING_EVERY_MS);
  document.addEventListener("htmx:afterSwap", () => tick());
}
