// The plan editor: keys and pointer on the diagram, undo and redo.  The server applies each edit to the draft that the form sends.
import { announce } from "./toast.js";
import { gettext } from "./words.js";

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

/** Send the form with an operation, as a button of it would. */
function operate(operation) {
  const button = editor().querySelector("[data-operation]");
  button.value = operation;
  button.click();
}

// --- undo and redo --------------------------------------------------------------------------------

function remember() {
  const draft = draftField()?.value;
  if (draft === undefined) return;
  if (draft !== states[at]?.draft) states.splice(++at, states.length, { draft });
  states[at].selected = selectedField().value;
  showSteps();
}

function showSteps() {
  editor().querySelector("[data-undo]").disabled = at <= 0;
  editor().querySelector("[data-redo]").disabled = at >= states.length - 1;
}

/** Show an earlier or later draft; the fields on the page are not sent with it. */
function travel(by, said) {
  const state = states[at + by];
  if (!state) return;
  at += by;
  const token = editor().querySelector("[name=csrfmiddlewaretoken]").value;
  post({
    source: document.body,
    target: "#editor",
    swap: "outerHTML show:none",
    values: { ...state, csrfmiddlewaretoken: token, action: "show" },
  });
  announce(said);
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
  if (node && nodeKey(event, node)) event.preventDefault();
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
  const node = event.target.closest("[data-node]");
  if (node && !event.target.closest("[data-handle]")) operate(`select:${node.dataset.node}`);
  return undefined;
}

// --- checks of typed values, and what comes back --------------------------------------------------

const SILENT = ["tool_query", "connect_to", "import_text"];

/** Put the text of a chosen file into the field that is imported. */
async function readFile(field) {
  const [file] = field.files;
  if (file) document.getElementById("import-text").value = await file.text();
}

/** A changed value is checked on the server; only its errors and the diagram come back. */
function onChange(event) {
  const field = event.target;
  if (field.matches("[data-import]")) {
    readFile(field);
    return;
  }
  if (!field.form || field.form !== editor() || SILENT.includes(field.name)) return;
  post({
    source: editor(),
    target: "#editor-problems",
    swap: "none",
    values: { action: "check" },
  });
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

document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target?.id === "editor") document.getElementById(editor()?.dataset.focus)?.focus();
});
document.addEventListener("htmx:afterRequest", () => {
  if (!editor()) return;
  remember();
  markErrors();
});

document.addEventListener("keydown", onKeydown);
document.addEventListener("click", onClick);
document.addEventListener("change", onChange);
document.addEventListener("pointerdown", startEdge);
document.addEventListener("pointermove", drawEdge);
document.addEventListener("pointerup", endEdge);
document.addEventListener("pointercancel", () => {
  drawn?.path.remove();
  drawn = null;
});
remember();
markErrors();
