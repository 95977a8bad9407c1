// Keeps relative times true while a page stays open.  Same words as duration_words() on the server.

const UNITS = [
  [86400, "day", "days"],
  [3600, "h", "h"],
  [60, "min", "min"],
  [1, "s", "s"],
];
const EVERY_MS = 10000;

/** Seconds as one rounded-down unit, `now` below one second. */
export function durationWords(seconds) {
  const whole = Math.floor(Math.abs(seconds));
  for (const [size, one, many] of UNITS) {
    if (whole >= size) {
      const count = Math.floor(whole / size);
      return `${count} ${count === 1 ? one : many}`;
    }
  }
  return "now";
}

function words(element) {
  const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
  const span = durationWords(seconds);
  if (element.dataset.clock === "ago") return span === "now" ? span : `${span} ago`;
  return seconds < 0 ? `${span} left` : "overdue";
}

export function tick(root = document) {
  for (const element of root.querySelectorAll("time[data-clock]")) {
    const text = words(element);
    if (element.textContent !== text) element.textContent = text;
  }
}

export function startClock() {
  setInterval(tick, EVERY_MS);
  document.addEventListener("htmx:afterSwap", () => tick());
}
