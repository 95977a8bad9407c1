// The plan editor: keys and pointer on the diagram, undo and redo.  The server applies each edit to the draft that the form sends.
import { announce } from "./toast.js";
import { fill, gettext } from "./words.js";

const states = [];
let at = -1;

const editor = () => document.getElementById("editor");
const draftField = () => document.getElementById("editor-draft");
const selectedField = () => document.getElementById("editor-selected");
const nodes = () => [...document.querySelectorAll("#editor-picture [data-node]")];
const selectedNode = () => nodes().find((node) => node.hasAttribute("aria-current"));

// The fields called `action` stand in the way of the property.
const address = () => editor().getAttribute("action");

/** Post to the editor.  A request that a newer one replaces is of no interest any more. */
function post(options) {
  window.htmx.ajax("POST", address(), options).catch(() => undefined);
}

/** Finds the element to focus after an operation; without it the server chooses. */
let focusAfter = null;

/** Send the form with an operation, as a button of it would. */
function operate(operation, after = null) {
  focusAfter = after;
  const button = editor().querySelector("[data-operation]");
  button.value = operation;
  button.click();
}

// --- undo and redo --------------------------------------------------------------------------------

/** Keep the draft as a step.  What is typed into one field in a row is one step. */
function remember(typed = null) {
  const draft = draftField()?.value;
  if (draft === undefined) return;
  if (draft !== states[at]?.draft) {
    if (!typed || states[at]?.typed !== typed) at += 1;
    states.splice(at, states.length, { draft });
  }
  states[at].typed = typed;
  states[at].selected = selectedField().value;
  showSteps();
}

function showSteps() {
  editor().querySelector("[data-undo]").disabled = at <= 0;
  editor().querySelector("[data-redo]").disabled = at >= states.length - 1;
}

/** The step that was asked for: the page shows it once the server has answered. */
let travelling = null;

/** Show an earlier or later draft; the fields on the page are not sent with it. */
function travel(by, said) {
  if (operating) {
    afterwards = () => travel(by, said);
    return;
  }
  const state = states[at + by];
  if (!state) return;
  travelling = { by, said };
  operating = "show";
  const { draft, selected } = state;
  const token = editor().querySelector("[name=csrfmiddlewaretoken]").value;
  post({
    source: document.body,
    target: "#editor",
    swap: "outerHTML show:none",
    values: { draft, selected, csrfmiddlewaretoken: token, action: "show" },
  });
}

/** The server has answered: with the step, or with an error after which the page is as before. */
function arrive(isShown) {
  if (travelling && isShown) {
    at += travelling.by;
    announce(travelling.said);
  }
  travelling = null;
}

const undo = () => travel(-1, gettext("Undone."));
const redo = () => travel(1, gettext("Redone."));

// --- keys -----------------------------------------------------------------------------------------

const place = (node) => ({ x: Number(node.dataset.x), y: Number(node.dataset.y) });
const ARROWS = {
  ArrowLeft: (from, to) => from.x - to.x,
  ArrowRight: (from, to) => to.x - from.x,
  ArrowUp: (from, to) => (to.x === from.x ? from.y - to.y : 0),
  ArrowDown: (from, to) => (to.x === from.x ? to.y - from.y : 0),
};

/** The nearest node in the direction of an arrow key: the next layer first, then the nearest row. */
function neighbour(node, key) {
  const from = place(node);
  const ahead = nodes()
    .map((other) => ({ other, far: ARROWS[key](from, place(other)), aside: Math.abs(place(other).y - from.y) }))
    .filter(({ far }) => far > 0)
    .sort((one, two) => one.far - two.far || one.aside - two.aside);
  return ahead[0]?.other;
}

function focusNode(node) {
  if (!node) return;
  for (const each of nodes()) each.setAttribute("tabindex", each === node ? "0" : "-1");
  node.focus();
}

function nodeKey(event, node) {
  if (event.key in ARROWS) focusNode(neighbour(node, event.key));
  else if (event.key === "Home") focusNode(nodes()[0]);
  else if (event.key === "End") focusNode(nodes().at(-1));
  else if (event.key === "Enter" || event.key === " ") operate(`select:${node.dataset.node}`);
  else if (event.key === "Delete" || event.key === "Backspace") operate(`remove:${node.dataset.node}`);
  else return false;
  return true;
}

const isText = (target) => target.matches?.("input:not([type=checkbox]), textarea");

const edges = () => [...document.querySelectorAll("#editor-picture [data-edge]")];

function focusEdge(edge) {
  if (!edge) return;
  for (const each of edges()) each.setAttribute("tabindex", each === edge ? "0" : "-1");
  edge.focus();
}

/** Show a connection as selected, with the button that removes it. */
function selectEdge(edge) {
  const tools = document.querySelector("[data-edge-tools]");
  if (!tools) return;
  for (const each of edges()) each.setAttribute("aria-pressed", String(each === edge));
  tools.hidden = !edge;
  if (!edge) return;
  tools.dataset.edgeTools = edge.dataset.edge;
  tools.querySelector("[data-edge-name]").textContent = edge.getAttribute("aria-label");
}

/** Remove a connection; the focus stays among the connections, or goes to the tasks. */
function removeEdge(name) {
  const place = edges().findIndex((edge) => edge.dataset.edge === name);
  operate(`disconnect:${name}`, () => edges()[Math.min(place, edges().length - 1)] ?? selectedNode() ?? nodes()[0]);
}

function edgeKey(event, edge) {
  const all = edges();
  const place = all.indexOf(edge);
  if (event.key === "ArrowRight" || event.key === "ArrowDown") focusEdge(all[place + 1]);
  else if (event.key === "ArrowLeft" || event.key === "ArrowUp") focusEdge(all[place - 1]);
  else if (event.key === "Home") focusEdge(all[0]);
  else if (event.key === "End") focusEdge(all.at(-1));
  else if (event.key === "Enter" || event.key === " ") document.querySelector("[data-remove-edge]").focus();
  else if (event.key === "Delete" || event.key === "Backspace") removeEdge(edge.dataset.edge);
  else return false;
  return true;
}

function onKeydown(event) {
  if (!editor() || event.defaultPrevented || event.altKey) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    // Inside a text field the browser undoes typing.
    if (isText(event.target)) return;
    event.preventDefault();
    (event.shiftKey ? redo : undo)();
    return;
  }
  if (event.ctrlKey || event.metaKey) return;
  const node = event.target.closest?.("[data-node]");
  const edge = event.target.closest?.("[data-edge]");
  if (node && nodeKey(event, node)) event.preventDefault();
  else if (edge && edgeKey(event, edge)) event.preventDefault();
  else if (event.key === "Escape" && event.target.closest?.("[data-task-form]")) {
    event.preventDefault();
    focusNode(selectedNode());
  }
}

// --- pointer --------------------------------------------------------------------------------------

let drawn = null;

/** The point of an event in the coordinates of the picture. */
function pointOf(event, svg) {
  const box = svg.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function startEdge(event) {
  const handle = event.target.closest?.("[data-handle]");
  if (!handle || event.button !== 0) return;
  event.preventDefault();
  const node = handle.closest("[data-node]");
  const svg = node.ownerSVGElement;
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.classList.add("edge", "drawn");
  svg.append(path);
  drawn = { node, svg, path, from: { x: place(node).x + 160, y: place(node).y + 22 } };
}

function drawEdge(event) {
  if (!drawn) return;
  const { from, path, svg } = drawn;
  const to = pointOf(event, svg);
  path.setAttribute("d", `M${from.x} ${from.y}L${to.x} ${to.y}`);
}

function endEdge(event) {
  if (!drawn) return;
  const { node, path } = drawn;
  drawn = null;
  path.remove();
  const target = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-node]");
  if (target && target !== node) operate(`connect:${node.dataset.node}>${target.dataset.node}`);
}

function onClick(event) {
  if (event.target.closest("[data-undo]")) return undo();
  if (event.target.closest("[data-redo]")) return redo();
  const remover = event.target.closest("[data-remove-edge]");
  if (remover) return removeEdge(remover.closest("[data-edge-tools]").dataset.edgeTools);
  const edge = event.target.closest("[data-edge]");
  if (edge) return focusEdge(edge);
  const node = event.target.closest("[data-node]");
  if (node && !event.target.closest("[data-handle]")) operate(`select:${node.dataset.node}`);
  return undefined;
}

// --- checks of typed values, and what comes back --------------------------------------------------

const SILENT = ["tool_query", "connect_to", "import_text"];
/** Bytes of an imported file. */
const MAX_FILE = 1024 * 1024;
/** Fields of the preview: examples are read when they are kept or a run starts. */
const EXAMPLE = /^[vjsi]:\//;

/** Put the text of a chosen file into the field that is imported; a file in another encoding would lose characters. */
async function readFile(field) {
  const [file] = field.files;
  if (!file) return;
  const error = document.getElementById("import-error");
  error.textContent = "";
  if (file.size > MAX_FILE) {
    error.textContent = fill(gettext("%(name)s is larger than 1 MiB."), { name: file.name });
    return;
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    document.getElementById("import-text").value = text;
  } catch {
    error.textContent = fill(gettext("%(name)s is not UTF-8 text. Save it as UTF-8."), { name: file.name });
  }
}

/** Milliseconds without a key press after which typed text is checked. */
const PAUSE = 400;
let pause = 0;
/** The text field that was checked last; null for another kind of field. */
let typing = null;
/** Name and text of the field that was checked last: leaving it needs no second check. */
let checked = "";
/** The server applies an operation: another request would take its place, and its answer renews the whole form. */
let operating = null;
/** The operation that was asked for meanwhile; it follows. */
let afterwards = null;
/** Operations after which other tasks are at the places that a pressed button names. */
const SHIFTS = /^(remove|earlier|later):|^(show|import)/;
/** What was typed meanwhile: the answer has the text as it was sent. */
let typedSince = [];

const isChecked = (field) =>
  Boolean(field.form) && field.form === editor() && !SILENT.includes(field.name) && !EXAMPLE.test(field.name);

/** A changed value is checked on the server; only its errors, its results and the diagram come back. */
function check(field) {
  clearTimeout(pause);
  if (operating) return;
  typing = isText(field) ? field.name : null;
  checked = `${field.name}=${field.value}`;
  post({
    source: editor(),
    target: "#editor-problems",
    swap: "none",
    values: { action: "check" },
  });
}

function onChange(event) {
  const field = event.target;
  if (field.matches("[data-import]")) readFile(field);
  else if (isChecked(field) && !(isText(field) && checked === `${field.name}=${field.value}`)) check(field);
}

function onInput(event) {
  const field = event.target;
  if (!isText(field) || !isChecked(field)) return;
  clearTimeout(pause);
  pause = setTimeout(() => isChecked(field) && check(field), PAUSE);
}

/** Mark the fields that have an error for screen readers. */
function markErrors() {
  for (const field of editor().querySelectorAll("[aria-describedby]")) {
    const slots = field.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id));
    const wrong = slots.some((slot) => slot?.matches(".field-error:not(:empty)"));
    field.toggleAttribute("aria-invalid", wrong);
    if (wrong) field.setAttribute("aria-invalid", "true");
  }
}

const TYPED = "input:is(:not([type]), [type=text], [type=number]):is([id][name]), textarea[id][name]";

/** The fields whose text is another than the one that was sent. */
function noteTyped({ detail: { requestConfig, target } }) {
  if (target?.id !== "editor" || !editor()) return;
  typedSince = [...editor().querySelectorAll(TYPED)]
    .map((field) => ({ id: field.id, sent: requestConfig.formData.get(field.name), text: field.value, field }))
    .filter(({ sent, text }) => sent !== null && sent !== text)
    .map((typed) => ({ ...typed, isFocused: typed.field === document.activeElement, from: typed.field.selectionStart }));
}

/** Put the typed text into the fields that the answer shows as they were sent; returns the one with the focus. */
function restoreTyped() {
  let focused = null;
  for (const { id, sent, text, isFocused, from } of typedSince) {
    const field = document.getElementById(id);
    if (!field?.matches(TYPED) || field.value !== sent) continue;
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    if (isFocused) focused = { field, from };
  }
  typedSince = [];
  return focused;
}

document.addEventListener("htmx:beforeSwap", noteTyped);
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target?.id !== "editor") return;
  checked = "";
  const typed = restoreTyped();
  if (typed) {
    typed.field.focus();
    if (Number.isInteger(typed.from)) typed.field.setSelectionRange(typed.from, typed.from);
    focusAfter = null;
    return;
  }
  const wanted = focusAfter?.() ?? document.getElementById(editor()?.dataset.focus);
  focusAfter = null;
  if (wanted?.matches("[data-edge]")) focusEdge(wanted);
  else wanted?.focus();
});

const isOperation = ({ verb, formData }) => verb === "post" && formData.get("action") !== "check";

/** A button that is pressed while the server applies an operation: its own follows, unless it was pressed twice. */
function waitForAnswer(event) {
  const { value } = event.detail.triggeringEvent?.submitter ?? {};
  if (!operating || !value || event.target !== editor()) return;
  event.preventDefault();
  const after = focusAfter;
  focusAfter = null;
  if (value.startsWith("add:") || (value !== operating && !SHIFTS.test(operating))) afterwards = () => operate(value, after);
}

document.addEventListener("htmx:confirm", waitForAnswer);
document.addEventListener("htmx:beforeRequest", (event) => {
  if (!event.detail.elt?.closest?.("#editor") || !isOperation(event.detail.requestConfig)) return;
  // An operation sends the typed text itself.
  clearTimeout(pause);
  operating = event.detail.requestConfig.formData.get("action");
});
document.addEventListener("htmx:afterRequest", (event) => {
  const { requestConfig, xhr } = event.detail;
  const ended = isOperation(requestConfig);
  const next = ended ? afterwards : null;
  if (ended) [operating, afterwards] = [null, null];
  if (requestConfig.formData.get("action") === "show") arrive(event.detail.successful);
  // A request without a response, or that a newer one replaced, has changed nothing.
  if (!editor() || xhr.status === 0) return;
  remember(requestConfig.formData.get("action") === "check" ? typing : null);
  markErrors();
  const leaves = ["HX-Redirect", "HX-Location"].some((name) => xhr.getResponseHeader(name));
  if (!leaves) next?.();
});
document.addEventListener("focusin", (event) => {
  const edge = event.target.closest?.("[data-edge]");
  if (edge || !event.target.closest?.("[data-edge-tools]")) selectEdge(edge);
});

document.addEventListener("keydown", onKeydown);
document.addEventListener("click", onClick);
document.addEventListener("change", onChange);
document.addEventListener("input", onInput);
document.addEventListener("pointerdown", startEdge);
document.addEventListener("pointermove", drawEdge);
document.addEventListener("pointerup", endEdge);
document.addEventListener("pointercancel", () => {
  drawn?.path.remove();
  drawn = null;
});
remember();
markErrors();
