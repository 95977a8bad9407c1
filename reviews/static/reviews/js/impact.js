// The impact of an edit: fetched while the user types, shown beside the fields and above the buttons.
import { visible } from "./diff.js";
import { send } from "./request.js";
import { gettext } from "./words.js";

const PAUSE_MS = 250;
// Longer lists do not fit into a URL: ask about the whole value instead.
const MOST_PATHS = 100;
const LONGEST = 6000;
const NOTHING = { fields: [], ahead: "" };

export class Impact {
  constructor(form) {
    this.form = form;
    this.list = form.querySelector("[data-impact-list]");
    this.ahead = form.closest("#decision")?.querySelector("[data-ahead-words]");
    this.aheadText = this.ahead?.textContent;
    this.asked = "";
  }

  /** Ask about these JSON pointers, unless they were the last ones. */
  show(paths) {
    if (!this.list) return;
    const query = queryOf(paths);
    if (query === this.asked) return;
    this.asked = query;
    clearTimeout(this.timer);
    if (!query) this.draw(NOTHING);
    else this.timer = setTimeout(() => this.ask(query), PAUSE_MS);
  }

  /** Show nothing rather than the impact of an earlier edit, also when the request fails. */
  async ask(query) {
    let told = NOTHING;
    try {
      const response = await send(`${this.list.dataset.impactUrl}?${query}`);
      if (response.ok) told = await response.json();
    } catch {
      // No connection: the next change fetches again.
    }
    if (query !== this.asked) return;
    if (told === NOTHING) this.asked = null;
    this.draw(told);
  }

  draw({ fields, ahead }) {
    const words = new Map(fields.map((field) => [field.path, field.words]));
    for (const box of this.form.querySelectorAll("[data-field]")) {
      const line = box.querySelector("[data-impact]");
      const found = words.get(box.dataset.path) ?? "";
      if (line.textContent !== found) line.textContent = found;
      line.hidden = !found;
    }
    this.list.querySelector("ul").replaceChildren(...fields.map(item));
    this.list.querySelector("p").textContent = ahead;
    this.list.hidden = !fields.length;
    if (this.ahead) this.ahead.textContent = ahead || this.aheadText;
  }
}

function queryOf(paths) {
  const query = paths.map((path) => `path=${encodeURIComponent(path)}`).join("&");
  return paths.length > MOST_PATHS || query.length > LONGEST ? "path=" : query;
}

function item({ dotted, words }) {
  const line = document.createElement("li");
  const name = document.createElement("span");
  name.className = "mono";
  name.textContent = dotted ? visible(dotted) : gettext("the whole value");
  line.append(name, ` ${words}`);
  return line;
}
