// Unsent text, stored in this tab for the user who wrote it.
//
// The draft of a decision is saved while it is written, and removed once the decision is made.  The fields of other
// forms are saved when the session has ended, and filled in again after the same person has signed in.

const DRAFT = "holdpoint.draft.";
const FIELDS = "holdpoint.fields.";
const person = () => document.body.dataset.person;
const draftKey = (hold) => `${DRAFT}${person()}.${hold}`;
const fieldsKey = () => `${FIELDS}${person()}.${location.pathname}`;

export function saveDraft(hold, draft) {
  store(draftKey(hold), draft);
}

export function loadDraft(hold) {
  return load(draftKey(hold));
}

function store(key, value) {
  try {
    if (value) sessionStorage.setItem(key, JSON.stringify(value));
    else sessionStorage.removeItem(key);
  } catch {
    // Storage is full or disabled: the text is still in the form.
  }
}

function load(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

// --- fields of other forms --------------------------------------------------------------------------

/** Editable text fields, without those of a decision form, which saves its own draft. */
function writtenFields() {
  const fields = document.querySelectorAll("form[method=post] :is(textarea, input:not([type]), input[type=text])[name]");
  return [...fields].filter((field) => !field.closest("[data-decision-form]"));
}

function fieldName(field) {
  return `${field.form.getAttribute("action")} ${field.form.elements.kind?.value ?? ""} ${field.name}`;
}

/** Save the text fields of this page; `isSent` is true while a form is being submitted. */
export function keepFields(isSent = false) {
  const written = writtenFields().filter((field) => field.value !== field.defaultValue);
  const values = Object.fromEntries(written.map((field) => [fieldName(field), field.value]));
  store(fieldsKey(), written.length ? { isSent, values } : null);
}

function restoreFields() {
  const kept = load(fieldsKey());
  store(fieldsKey(), null);
  if (!kept) return;
  for (const field of writtenFields()) {
    const value = kept.values[fieldName(field)];
    if (value === undefined) continue;
    field.value = value;
    const folded = field.closest("details");
    if (folded) folded.open = true;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

// --- the person ---------------------------------------------------------------------------------------

function keys(prefix) {
  try {
    return Object.keys(sessionStorage).filter((key) => key.startsWith(prefix));
  } catch {
    return [];
  }
}

/** Restore the saved text, and remove text that another user wrote in this tab.
 *
 *  Text of a submitted form is restored only if the submit led to the sign-in page.
 */
export function startDrafts() {
  if (!person()) {
    for (const key of keys(FIELDS)) store(key, { ...load(key), isSent: false });
    return;
  }
  for (const key of [...keys(DRAFT), ...keys(FIELDS)]) {
    const mine = [`${DRAFT}${person()}.`, `${FIELDS}${person()}.`].some((prefix) => key.startsWith(prefix));
    if (!mine || load(key)?.isSent) store(key, null);
  }
  restoreFields();
  document.addEventListener("submit", (event) => {
    if (event.target.matches("form[method=post]") && !event.defaultPrevented) keepFields(true);
  });
}
