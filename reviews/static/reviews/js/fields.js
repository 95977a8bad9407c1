// The payload form as a tree: each control's current and original value, and the value of the whole form.
import { at, isObject, parse, pointerParts, stringify } from "./json.js";
import { fill, ngettext } from "./words.js";

const HOLDERS = "[data-group], [data-item], [data-fields]";
const unixLines = (text) => text.replaceAll("\r\n", "\n");

/** One control that holds one value. */
export class Field {
  constructor(box) {
    this.box = box;
    this.path = box.dataset.path;
    this.kind = box.dataset.kind;
    this.label = box.dataset.label;
    this.input = box.querySelector("[data-input]");
    this.state = box.querySelector("[data-state-of]");
    this.was = unixLines(box.querySelector("[data-was]").textContent);
  }

  get text() {
    return this.input.type === "checkbox" ? String(this.input.checked) : unixLines(this.input.value);
  }

  set text(text) {
    if (this.input.type === "checkbox") this.input.checked = text === "true";
    else this.input.value = text;
  }

  get stateChanged() {
    return Boolean(this.state) && this.state.value !== this.state.dataset.stateOf;
  }

  get changed() {
    return this.text !== this.was || this.stateChanged;
  }

  reset() {
    this.text = this.was;
    if (this.state) this.state.value = this.state.dataset.stateOf;
  }

  /** The JSON value, undefined when it is absent; `original` is the whole payload as it was shown. */
  value(original) {
    if (!this.changed) return at(original, this.path);
    if (this.stateChanged && this.state.value === "absent") return undefined;
    if (this.stateChanged && this.state.value === "null") return null;
    if (this.kind === "text" || this.kind === "textarea") return this.text;
    try {
      return parse(this.text);
    } catch {
      return this.text.trim() === "" ? undefined : this.text;
    }
  }

  /** Show `value` as the server would. */
  show(value) {
    if (this.state) this.state.value = value === undefined ? "absent" : value === null ? "null" : "set";
    if (value === undefined || (value === null && this.kind !== "json")) this.text = "";
    else if (this.kind === "enum") this.text = this.optionFor(value);
    else if (this.kind === "json") this.text = stringify(value);
    else this.text = typeof value === "string" ? value : stringify(value);
  }

  optionFor(value) {
    const wanted = stringify(value);
    const option = [...this.input.options].find(
      (item) => item.value && stringify(parse(item.value)) === wanted,
    );
    return option?.value ?? "";
  }

  mark() {
    const { changed } = this;
    this.box.classList.toggle("changed", changed);
    this.box.querySelector("[data-mark]").hidden = !changed;
    this.box.querySelector("[data-reset]").hidden = !changed;
  }
}

const fieldsOf = new WeakMap();

/** The Field of an element; one element has one Field. */
export function fieldOf(box) {
  if (!fieldsOf.has(box)) fieldsOf.set(box, new Field(box));
  return fieldsOf.get(box);
}

export const allFields = (root) => [...root.querySelectorAll("[data-field]")].map(fieldOf);

/** The fields and groups directly inside `holder`. */
function inside(holder) {
  return [...holder.querySelectorAll("[data-field], [data-group]")].filter(
    (node) => node.parentElement.closest(HOLDERS) === holder,
  );
}

/** The element of `group` itself, not of a field or group inside it. */
function own(group, selector) {
  return [...group.querySelectorAll(selector)].find(
    (element) => element.closest("[data-field], [data-group]") === group,
  );
}

function stateOf(group) {
  const select = own(group, "[data-state-of]");
  return select && select.value !== select.dataset.stateOf ? select.value : "";
}

function objectValue(group, original) {
  const before = at(original, group.dataset.path);
  const whole = isObject(before) ? { ...before } : {};
  for (const node of inside(group)) put(whole, node, original);
  return isObject(before) || Object.keys(whole).length || stateOf(group) === "set" ? whole : before;
}

function put(whole, node, original) {
  const key = pointerParts(node.dataset.path).at(-1);
  const value = valueOf(node, original);
  if (value === undefined) delete whole[key];
  else Object.defineProperty(whole, key, { value, writable: true, enumerable: true, configurable: true });
}

const itemsOf = (group) => [...own(group, "[data-item-list]").children];

function arrayValue(group, original) {
  const before = at(original, group.dataset.path);
  const items = itemsOf(group).map((item) => valueOf(inside(item)[0], original) ?? null);
  return Array.isArray(before) || items.length || stateOf(group) === "set" ? items : before;
}

function valueOf(node, original) {
  if (node.matches("[data-field]")) return fieldOf(node).value(original);
  const state = stateOf(node);
  if (state === "absent") return undefined;
  if (state === "null") return null;
  return node.dataset.group === "array" ? arrayValue(node, original) : objectValue(node, original);
}

/** The whole payload as the form has it now. */
export function formValue(root, original) {
  const nodes = inside(root);
  if (nodes.length === 1 && nodes[0].dataset.path === "") return valueOf(nodes[0], original);
  const whole = isObject(original) ? { ...original } : {};
  for (const node of nodes) put(whole, node, original);
  return whole;
}

/** Open every list that contains an edit or an error. */
export function unfoldChanged(root) {
  for (const fold of root.querySelectorAll("details:not([open])")) {
    if (fold.querySelector(".field.changed, [aria-invalid=true]")) fold.open = true;
  }
}

/** Show `value` in the form; parts without a control are ignored. */
export function showValue(root, value) {
  const nodes = inside(root);
  if (nodes.length === 1 && nodes[0].dataset.path === "") return show(nodes[0], value);
  return nodes.forEach((node) => show(node, partOf(value, node)));
}

function partOf(value, node) {
  const key = pointerParts(node.dataset.path).at(-1);
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function show(node, value) {
  if (node.matches("[data-field]")) return fieldOf(node).show(value);
  const select = own(node, "[data-state-of]");
  if (select) select.value = value === undefined ? "absent" : value === null ? "null" : "set";
  if (node.dataset.group === "object") return inside(node).forEach((child) => show(child, partOf(value, child)));
  const wanted = Array.isArray(value) ? value : [];
  while (itemsOf(node).length > wanted.length) removeItem(itemsOf(node).at(-1));
  while (itemsOf(node).length < wanted.length && own(node, "[data-blank]")) addItem(node);
  return itemsOf(node).forEach((item, index) => show(inside(item)[0], wanted[index]));
}

// --- items of a list ------------------------------------------------------------------------------

/** Never reuse an index: the server reads it as a position in the original. */
function nextNumber(group) {
  group.dataset.next ??= String(itemsOf(group).length);
  return Number(group.dataset.next);
}

function noteItems(group) {
  const ids = itemsOf(group).map((item) => item.dataset.item);
  own(group, "[data-items]").value = ids.join(",");
  own(group, "summary").textContent = fill(ngettext("%(n)s item", "%(n)s items", ids.length), { n: ids.length });
}

function numbered(name, value, number) {
  if (name === "name" || name === "data-path") return value.replace(/\/NEW(?=\/|$)/, `/${number}`);
  return value.replaceAll("-NEW", `-${number}`);
}

/** Append an empty item to the list `group`; returns it. */
export function addItem(group) {
  const number = nextNumber(group);
  group.dataset.next = String(number + 1);
  const item = own(group, "[data-blank]").content.firstElementChild.cloneNode(true);
  item.dataset.item = String(number);
  for (const element of item.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) {
      if (/^(name|id|for|data-path|aria-describedby|aria-errormessage)$/.test(name)) {
        element.setAttribute(name, numbered(name, value, number));
      }
    }
  }
  own(group, "[data-item-list]").append(item);
  noteItems(group);
  return item;
}

export function removeItem(item) {
  const group = item.parentElement.closest("[data-group]");
  nextNumber(group);
  item.remove();
  noteItems(group);
}
