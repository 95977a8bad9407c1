// Events over a WebSocket.  The socket carries ids and sequence numbers; pages fetch the data.
//
// Events reach the page as `holdpoint:news` on <body>, with the event as detail; while the socket is down
// `holdpoint:poll` fires every 20 seconds instead.  Both can serve as htmx triggers.
import { signInAgain } from "./request.js";
import { gettext } from "./words.js";

const QUEUE = "/ws/reviews/";
const POLL_MS = 20000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30000;
const POLLS_AFTER_TRIES = 3;
const UNAUTHENTICATED = 4401;
const WORDS = {
  live: gettext("live"),
  reconnecting: gettext("reconnecting"),
  polling: gettext("polling"),
  offline: gettext("offline"),
};
const SHAPES = { live: "●", reconnecting: "◐", polling: "○", offline: "✕" };
const TITLES = {
  live: gettext("This page updates by itself"),
  reconnecting: gettext("The connection was lost; trying again"),
  polling: gettext("No live connection; the page updates every 20 seconds"),
  offline: gettext("This computer is offline; what you write is kept in this tab"),
};

function tell(name, detail = {}) {
  document.body.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
}

function showState(state) {
  const chip = document.getElementById("connection");
  if (!chip || chip.dataset.state === state) return;
  chip.hidden = false;
  chip.dataset.state = state;
  chip.title = TITLES[state];
  chip.querySelector(".shape").textContent = SHAPES[state];
  chip.querySelector(".word").textContent = WORDS[state];
}

/** Milliseconds since the browser asked for this page; the server reads the rows after that. */
function pageAge() {
  const [page] = performance.getEntriesByType("navigation");
  return Math.ceil(performance.now() - (page?.requestStart ?? 0));
}

/** Remembers the newest sequence number per execution and notices a missing one. */
export class Sequence {
  #seen = new Map();

  /** Returns "new", "old" (already received) or "gap" (an event in between was missed). */
  take(executionId, seq) {
    if (!Number.isInteger(seq)) return "new";
    const last = this.#seen.get(executionId);
    if (last !== undefined && seq <= last) return "old";
    if (last !== undefined && seq > last + 1) return "gap";
    this.#seen.set(executionId, seq);
    return "new";
  }

  start(executionId, seq) {
    this.#seen.set(executionId, seq);
  }

  last(executionId) {
    return this.#seen.get(executionId);
  }
}

export class NewsSocket {
  #path;
  #execution;
  #sequence = new Sequence();
  #tries = 0;
  #opens = 0;
  #poll = null;
  #socket = null;

  /** `path` is absolute without query; `after` the newest seq the page shows, or null for the queue. */
  constructor(path, after = null) {
    this.#path = path;
    this.#execution = path.match(/\/executions\/([^/]+)\//)?.[1] ?? null;
    if (this.#execution && Number.isInteger(after)) this.#sequence.start(this.#execution, after);
  }

  #address() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    return `${scheme}://${location.host}${this.#path}${this.#query()}`;
  }

  /** What the page shows already: the seq of a run, or the age of the queue's rows in milliseconds. */
  #query() {
    if (!this.#execution) return this.#opens ? "" : `?age=${pageAge()}`;
    const after = this.#sequence.last(this.#execution);
    return after === undefined ? "" : `?after=${after}`;
  }

  open() {
    this.#socket = new WebSocket(this.#address());
    this.#socket.addEventListener("open", () => this.#opened());
    this.#socket.addEventListener("message", (message) => this.#heard(message.data));
    this.#socket.addEventListener("close", (event) => this.#closed(event.code));
  }

  #opened() {
    const cameBack = this.#tries > 0;
    this.#tries = 0;
    this.#opens += 1;
    this.#stopPolling();
    showState("live");
    // The queue's socket replays events only once, from the time of the page: refresh.
    if (cameBack) tell("holdpoint:poll");
  }

  #heard(data) {
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      return;
    }
    if (event.type === "notices") return tell("holdpoint:bell", event);
    // workflow_paused follows at once and has the sequence number.
    if (event.type === "decision_required" && event.seq === undefined) return;
    const place = this.#execution ? this.#sequence.take(event.executionId, event.seq) : "new";
    if (place === "gap") this.#socket.close(4000, "gap");
    else if (place === "new") tell("holdpoint:news", event);
  }

  #closed(code) {
    this.#tries += 1;
    // 4401, 4403, 4404: the server refused, so do not reconnect; polling shows the reason.
    const refused = code >= 4401 && code <= 4404;
    const polling = refused || this.#tries >= POLLS_AFTER_TRIES;
    showState(navigator.onLine === false ? "offline" : polling ? "polling" : "reconnecting");
    if (polling) this.#startPolling();
    if (code === UNAUTHENTICATED) signInAgain();
    if (refused) return;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (this.#tries - 1));
    setTimeout(() => this.open(), code === 4000 ? 0 : wait * (0.75 + Math.random() / 2));
  }

  #startPolling() {
    this.#poll ??= setInterval(() => tell("holdpoint:poll"), POLL_MS);
  }

  #stopPolling() {
    clearInterval(this.#poll);
    this.#poll = null;
  }
}

/** Open the socket that `element` names in data-socket (and data-after). */
export function startSocket(element) {
  if (!element) return null;
  const after = Number.parseInt(element.dataset.after ?? "", 10);
  const socket = new NewsSocket(element.dataset.socket ?? QUEUE, Number.isNaN(after) ? null : after);
  socket.open();
  window.addEventListener("offline", () => showState("offline"));
  window.addEventListener("online", () => {
    if (document.getElementById("connection")?.dataset.state === "offline") showState("reconnecting");
    tell("holdpoint:poll");
  });
  return socket;
}
