// The payload as people read it: rendered by the server, and searched here.
import { send } from "./request.js";
import { fill, gettext } from "./words.js";

const PAUSE_MS = 250;
const NAME = "payload-find";

export class Preview {
  /** `json` gives the payload as it is now, as text. */
  constructor(form, json) {
    this.form = form;
    this.json = json;
    this.view = form.querySelector("[data-preview]");
    this.opener = form.querySelector("[data-preview-open]");
    this.find = form.querySelector("[data-find]");
    this.count = form.querySelector("[data-find-count]");
    this.matches = [];
    this.at = -1;
    /** How often it was opened or closed: a late answer opens nothing that was closed since. */
    this.turn = 0;
    this.opener.addEventListener("click", () => this.open());
    this.find.addEventListener("input", () => this.searchSoon());
    this.find.addEventListener("keydown", (event) => this.key(event));
  }

  async open() {
    const text = this.json();
    const turn = ++this.turn;
    if (this.shown !== text) {
      const body = new FormData();
      body.set("csrfmiddlewaretoken", this.form.elements.csrfmiddlewaretoken.value);
      body.set("value", text);
      const response = await send(this.view.dataset.preview, { method: "POST", body });
      if (!response.ok) return false;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (turn !== this.turn) return false;
      this.view.replaceChildren(...document.importNode(page.body, true).childNodes);
      this.shown = text;
    }
    this.show(true);
    return true;
  }

  close() {
    this.turn += 1;
    this.show(false);
    this.find.value = "";
    this.mark([]);
    this.count.textContent = "";
  }

  show(open) {
    this.view.hidden = !open;
    this.view.parentElement.classList.toggle("previewing", open);
    this.opener.setAttribute("aria-pressed", String(open));
    const { value } = this.form.elements.mode;
    for (const button of this.form.querySelectorAll("button[data-mode]")) {
      button.setAttribute("aria-pressed", String(!open && button.dataset.mode === value));
    }
  }

  // --- find -----------------------------------------------------------------------------------

  searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search().catch(() => {}), PAUSE_MS);
  }

  /** Enter goes to the next match and never sends the form. */
  key(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (this.matches.length) this.go(this.at + (event.shiftKey ? -1 : 1));
    else this.searchSoon();
  }

  async search() {
    const wanted = this.find.value.trim().toLowerCase();
    if (!wanted) {
      this.mark([]);
      this.count.textContent = "";
      return;
    }
    if (!(await this.open())) return;
    this.mark(ranges(this.view, wanted));
    if (this.matches.length) this.go(0);
    else this.count.textContent = gettext("No match");
  }

  mark(matches) {
    this.matches = matches;
    this.at = -1;
    if (!window.CSS?.highlights) return;
    CSS.highlights.delete(`${NAME}-here`);
    if (matches.length) CSS.highlights.set(NAME, new Highlight(...matches));
    else CSS.highlights.delete(NAME);
  }

  go(to) {
    this.at = (to + this.matches.length) % this.matches.length;
    const range = this.matches[this.at];
    if (window.CSS?.highlights) CSS.highlights.set(`${NAME}-here`, new Highlight(range));
    range.startContainer.parentElement.scrollIntoView({ block: "nearest" });
    this.count.textContent = fill(gettext("%(n)s of %(all)s"), { n: this.at + 1, all: this.matches.length });
  }
}

/** The places of `wanted`, in lower case, in the text of `root`. */
function ranges(root, wanted) {
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.toLowerCase();
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(walker.currentNode, at);
      range.setEnd(walker.currentNode, Math.min(at + wanted.length, walker.currentNode.length));
      found.push(range);
    }
  }
  return found;
}
