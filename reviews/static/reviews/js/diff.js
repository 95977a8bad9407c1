// The diff of an edit: lines side by side for text, before → after for the rest.
import { stringify } from "./json.js";
import { fill, gettext, ngettext } from "./words.js";

const CONTEXT_LINES = 2;
const MOST_CELLS = 4_000_000;
const LONG = 60;

/** Longest common subsequence of two line lists as rows {op, left, right}; op is same|add|remove. */
export function lineDiff(before, after) {
  const left = before.split("\n");
  const right = after.split("\n");
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let end = 0;
  const most = Math.min(left.length, right.length) - start;
  while (end < most && left[left.length - 1 - end] === right[right.length - 1 - end]) end += 1;
  const same = (line) => ({ op: "same", left: line, right: line });
  return [
    ...left.slice(0, start).map(same),
    ...middle(left.slice(start, left.length - end), right.slice(start, right.length - end)),
    ...left.slice(left.length - end).map(same),
  ];
}

function middle(left, right) {
  const replaced = [
    ...left.map((line) => ({ op: "remove", left: line, right: "" })),
    ...right.map((line) => ({ op: "add", left: "", right: line })),
  ];
  if (left.length * right.length > MOST_CELLS) return replaced;
  const width = right.length + 1;
  const table = new Uint32Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      table[i * width + j] =
        left[i] === right[j]
          ? table[(i + 1) * width + j + 1] + 1
          : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  return walk(left, right, table, width);
}

function walk(left, right, table, width) {
  const rows = [];
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      rows.push({ op: "same", left: left[i], right: right[j] });
      i += 1;
      j += 1;
    } else if (j >= right.length || (i < left.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      rows.push({ op: "remove", left: left[i], right: "" });
      i += 1;
    } else {
      rows.push({ op: "add", left: "", right: right[j] });
      j += 1;
    }
  }
  return rows;
}

/** Put a run of removed lines beside the added lines that follow it. */
export function pairUp(rows) {
  const out = [];
  for (let i = 0; i < rows.length; ) {
    if (rows[i].op === "same") {
      out.push(rows[i]);
      i += 1;
      continue;
    }
    const removed = [];
    const added = [];
    while (i < rows.length && rows[i].op === "remove") removed.push(rows[i++].left);
    while (i < rows.length && rows[i].op === "add") added.push(rows[i++].right);
    for (let k = 0; k < Math.max(removed.length, added.length); k += 1) {
      const op = k >= removed.length ? "add" : k >= added.length ? "remove" : "change";
      out.push({ op, left: removed[k] ?? "", right: added[k] ?? "" });
    }
  }
  return out;
}

/** Replace long stretches of unchanged lines by one row that counts them. */
export function withGaps(rows) {
  const near = (index) => {
    const from = Math.max(0, index - CONTEXT_LINES);
    return rows.slice(from, index + CONTEXT_LINES + 1).some((row) => row.op !== "same");
  };
  const out = [];
  let hidden = 0;
  const flush = () => {
    if (hidden) out.push({ op: "gap", left: fill(ngettext("%(n)s unchanged line", "%(n)s unchanged lines", hidden), { n: hidden }) });
    hidden = 0;
  };
  rows.forEach((row, index) => {
    if (near(index)) {
      flush();
      out.push(row);
    } else hidden += 1;
  });
  flush();
  return out;
}

/** Invisible and direction-changing characters spelled out, as the server's `visible` filter does. */
export function visible(text) {
  return text.replace(/[\p{Cf}\p{Cc}\p{Co}\p{Cs}]/gu, (char) =>
    "\n\t\r".includes(char) ? char : `[U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`,
  );
}

const asText = (value) =>
  value === undefined ? "" : typeof value === "string" ? value : stringify(value);

function shortText(value) {
  if (value === undefined) return gettext("(nothing)");
  return asText(value) || gettext("(empty)");
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Split two lines into what they share at both ends and what differs between: [head, middle, tail] each. */
export function middleOut(left, right) {
  const words = (line) => line.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  const [a, b] = [words(left), words(right)];
  const shortest = Math.min(a.length, b.length);
  let head = 0;
  while (head < shortest && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < shortest - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const cut = (list) => [
    list.slice(0, head).join(""),
    list.slice(head, list.length - tail).join(""),
    list.slice(list.length - tail).join(""),
  ];
  return [cut(a), cut(b)];
}

function marked(className, [head, middle, tail]) {
  const cell = element("td", className);
  cell.append(visible(head));
  if (middle) cell.append(element("mark", "", visible(middle)));
  cell.append(visible(tail));
  return cell;
}

function cells(row) {
  if (row.op === "gap") {
    const cell = element("td", "", row.left);
    cell.colSpan = 2;
    return [cell];
  }
  if (row.op === "change") {
    const [left, right] = middleOut(row.left, row.right);
    return [marked("removed", left), marked("added", right)];
  }
  return [
    element("td", row.op === "remove" ? "removed" : "", visible(row.left)),
    element("td", row.op === "add" ? "added" : "", visible(row.right)),
  ];
}

function table(before, after, label) {
  const made = element("table", "lines");
  made.append(element("caption", "visually-hidden", fill(gettext("%(name)s: before on the left, after on the right"), { name: label })));
  const body = element("tbody");
  for (const row of withGaps(pairUp(lineDiff(before, after)))) {
    const line = element("tr", row.op === "gap" ? "gap" : "");
    line.append(...cells(row));
    body.append(line);
  }
  made.append(body);
  return made;
}

/** Mask the replacement of a masked value too: the confirmation shows neither side. */
const MASK = /^\[•{8} \d+\]$/;
const unseen = (before, after) => typeof before === "string" && MASK.test(before) && after !== undefined && !MASK.test(after);

/** The same markup as _changes.html for [{label, before, after}]. */
export function changesView(changes) {
  return changes.map(({ label, before, after }) => {
    const box = element("div", "change");
    box.append(element("span", "change-path", visible(label)));
    if (unseen(before, after)) after = fill(gettext("%(mask)s (new)"), { mask: "••••••••" });
    const [left, right] = [asText(before), asText(after)];
    if (left.length > LONG || right.length > LONG || /\n/.test(left + right)) {
      box.append(table(left, right, label));
      return box;
    }
    const pair = element("span", "pair");
    const arrow = element("span", "", "→");
    arrow.setAttribute("aria-hidden", "true");
    pair.append(element("del", "", visible(shortText(before))), arrow, element("ins", "", visible(shortText(after))));
    box.append(pair);
    return box;
  });
}
