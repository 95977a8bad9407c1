// The decision form: form view and JSON view of the payload, the diff of an edit, and the submit button's label.
import { changesView } from "./diff.js";
import { loadDraft, saveDraft } from "./drafts.js";
import { addItem, allFields, fieldOf, formValue, removeItem, showValue, unfoldChanged } from "./fields.js";
import { Impact } from "./impact.js";
import { differences, dotted, parse, stringify } from "./json.js";
import { inTextField } from "./keys.js";
import { Preview } from "./preview.js";
import { fill, gettext, ngettext } from "./words.js";

/** Fields that can be read-only: they keep focus, caret and text. */
const WRITTEN = "textarea, input:not([type=checkbox], [type=radio], [type=submit], [type=button])";

const counted = (n) => fill(ngettext("%(n)s change", "%(n)s changes", n), { n });
const withChanges = (label, n) =>
  fill(ngettext("%(label)s with %(n)s change", "%(label)s with %(n)s changes", n), { label, n });

/** The innermost of these fields that holds the place. */
function nearest(boxes, path) {
  for (let place = path; ; place = place.slice(0, place.lastIndexOf("/"))) {
    if (boxes.has(place)) return boxes.get(place);
    if (!place) return undefined;
  }
}

function fillDiff(view, changes) {
  view.replaceChildren(...changesView(changes));
  view.hidden = changes.length === 0;
}

export class DecisionForm {
  constructor(form, hold) {
    this.form = form;
    this.hold = hold;
    this.root = form.querySelector("[data-fields]");
    this.edits = form.querySelector("[data-edits]");
    this.comment = form.querySelector("[data-comment]");
    this.originalText = form.querySelector("[data-original]").textContent;
    // A payload too long for the page is truncated: it can be read here and not edited.
    this.partial = "partial" in form.dataset;
    this.original = this.partial ? null : parse(this.originalText);
    this.blocked = form.querySelector("[data-approve]")?.disabled ?? true;
    this.digest = form.elements.shown.value;
    /** What the form had when it was frozen. */
    this.frozen = null;
    this.impact = new Impact(form);
    this.preview = form.querySelector("[data-preview-open]") ? new Preview(form, () => this.json()) : null;
  }

  get mode() {
    return this.form.elements.mode.value;
  }

  get canDecide() {
    return this.form.dataset.canDecide === "yes";
  }

  get canEdit() {
    return this.canDecide && !this.partial && this.form.dataset.canEdit === "yes";
  }

  /** What the button does; for a permission it says how far the approval reaches. */
  get approveLabel() {
    const scope = this.form.querySelector("[name=grant_scope]:checked");
    const length = scope?.value === "until" && this.form.elements.grant_seconds?.selectedOptions[0];
    const standing = this.form.querySelector("[name=standing]:checked") && this.form.elements.standing_hours.selectedOptions[0];
    const given = (standing || length || scope)?.dataset.approveLabel;
    return given || this.form.querySelector("[data-approve]").dataset.label || gettext("Approve");
  }

  start() {
    if (this.canDecide && !("serverText" in this.form.dataset)) this.restore();
    this.showMode(this.mode === "json" || !this.root.querySelector("[data-field], [data-group]") ? "json" : "form");
    this.form.addEventListener("input", () => this.update());
    this.form.addEventListener("change", () => this.update());
    this.form.addEventListener("click", (event) => this.clicked(event));
    this.form.addEventListener("keydown", (event) => this.keyed(event));
    this.form.addEventListener("submit", (event) => this.submitting(event), { capture: true });
    for (const name of ["reject", "changes"]) {
      if (this.#isOpen(name)) this.form.querySelector(`[data-${name}-open]`).setAttribute("aria-expanded", "true");
    }
    this.update();
    unfoldChanged(this.root);
  }

  clicked(event) {
    const { target } = event;
    const mode = target.closest("[data-mode]");
    if (mode) {
      this.preview?.close();
      return this.switchTo(mode.dataset.mode);
    }
    const reset = target.closest("[data-reset]");
    if (reset) return this.resetField(reset.closest("[data-field]"));
    if (target.closest("[data-reset-all]")) return this.resetAll();
    if (target.closest("[data-add-item], [data-remove-item]")) return this.changeItems(target);
    if (target.closest("[data-reject-open]")) return this.toggleReject();
    if (target.closest("[data-changes-open]")) return this.toggleChanges();
    if (target.closest("[data-panel-cancel]")) return this.cancelPanel();
    if (target.closest("[data-return]")) return this.needsWords(event, gettext("Say what should be changed."));
    if (target.closest("[data-needs-reason=yes]")) return this.needsWords(event, gettext("Give a reason for the rejection."));
    const preset = target.closest("[data-preset]");
    if (preset) this.usePreset(preset.dataset.preset);
    return undefined;
  }

  // --- the payload in its two views -----------------------------------------------------------

  /** The payload as the form has it now. */
  formValue() {
    return formValue(this.root, this.original);
  }

  /** Switch to the other view with the edits; stay if the text cannot be shown as a form. */
  switchTo(mode) {
    if (mode === this.mode) return;
    if (mode === "json") this.edits.value = stringify(this.formValue());
    else if (!this.fillForm()) return;
    this.showMode(mode);
    this.update();
  }

  fillForm() {
    const value = this.parsed();
    if (value === undefined) return false;
    showValue(this.root, value);
    for (const field of allFields(this.root)) field.mark();
    unfoldChanged(this.root);
    const lost = differences(this.formValue(), value);
    if (!lost.length) return true;
    this.say(fill(gettext("The form cannot show %(name)s as it is now; it can be sent from here as JSON."), { name: dotted(lost[0].path) || gettext("this value") }));
    return false;
  }

  showMode(mode) {
    this.form.elements.mode.value = mode;
    this.form.querySelector("[data-fields]").hidden = mode !== "form";
    this.form.querySelector("[data-raw]").hidden = mode !== "json";
    for (const button of this.form.querySelectorAll("button[data-mode]")) {
      button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    }
  }

  /** The JSON view's value, undefined while the text is invalid, with an error message at its place. */
  parsed() {
    try {
      const value = parse(this.edits.value);
      this.say("");
      return value;
    } catch (error) {
      this.say(fill(gettext("This is not valid JSON yet: %(error)s"), { error: error.message }));
      return undefined;
    }
  }

  say(text) {
    this.form.querySelector("#edits-error").textContent = text;
    this.edits.toggleAttribute("aria-invalid", Boolean(text));
    if (text) this.edits.setAttribute("aria-invalid", "true");
  }

  /** The payload as it is now, as JSON text. */
  json() {
    if (this.partial) return "";
    return this.mode === "json" ? this.edits.value : stringify(this.formValue());
  }

  // --- what changed ---------------------------------------------------------------------------

  /** [{label, before, after}], or null while the JSON view holds no valid JSON. */
  changes() {
    const value = this.mode === "form" ? this.formValue() : this.parsed();
    if (value === undefined && this.mode === "json") return null;
    return differences(this.original, value).map(({ path, before, after }) => ({
      path,
      label: dotted(path) || gettext("the whole value"),
      before,
      after,
    }));
  }

  update() {
    for (const field of allFields(this.root)) field.mark();
    if (!this.canDecide) return;
    const changes = this.canEdit ? this.changes() : [];
    const count = changes?.length ?? 0;
    this.showApprove(changes);
    if (!this.canEdit) {
      saveDraft(this.hold, this.comment.value ? { comment: this.comment.value } : null);
      return;
    }
    this.showChanges(changes ?? []);
    this.impact.show((changes ?? []).map(({ path }) => path));
    this.form.querySelector("[data-change-count]").textContent = count ? counted(count) : "";
    this.form.querySelector("[data-reset-all]").hidden = count === 0;
    // The diff stands in the payload: sending from here is the confirmation.
    this.form.elements.confirmed.value = "yes";
    this.keep(count > 0 || changes === null);
  }

  /** The button, and beside it why it is off. */
  showApprove(changes) {
    const approve = this.form.querySelector("[data-approve]");
    const why = this.form.querySelector("[data-why-off]");
    const count = changes?.length ?? 0;
    const label = count ? withChanges(this.approveLabel, count) : this.approveLabel;
    if (approve.textContent !== label) approve.textContent = label;
    approve.disabled = this.blocked || changes === null;
    const reason = this.overtaken
      ? gettext("The payload has changed: open it again.")
      : changes === null
        ? gettext("The JSON is not valid.")
        : why.dataset.server;
    if (why.textContent !== reason) why.textContent = reason;
  }

  /** Each change below its field; the others, and those of the JSON view, at the end of the payload. */
  showChanges(changes) {
    const boxes = new Map();
    for (const box of this.root.querySelectorAll("[data-field]")) boxes.set(box.dataset.path, { box, changes: [] });
    const rest = [];
    for (const change of changes) {
      const place = this.mode === "form" ? nearest(boxes, change.path) : undefined;
      (place?.changes ?? rest).push(change);
    }
    for (const { box, changes: mine } of boxes.values()) fillDiff(box.querySelector("[data-diff]"), mine);
    fillDiff(this.form.querySelector("[data-changes]"), rest);
  }

  resetField(box) {
    const field = fieldOf(box);
    field.reset();
    field.input.focus();
    this.update();
  }

  resetAll() {
    showValue(this.root, this.original);
    for (const field of allFields(this.root)) field.reset();
    this.edits.value = this.originalText;
    this.update();
  }

  changeItems(target) {
    const gone = target.closest("[data-remove-item]");
    if (gone) {
      const group = gone.closest("[data-group]");
      removeItem(gone.closest("[data-item]"));
      group.querySelector("[data-add-item]")?.focus();
    } else addItem(target.closest("[data-group]")).querySelector("[data-input]")?.focus();
    this.update();
  }

  // --- decisions -----------------------------------------------------------------------------

  toggleReject() {
    if (this.#isOpen("changes")) this.toggleChanges();
    this.#toggle("reject", gettext("Reason, stored in the record"));
  }

  toggleChanges() {
    if (this.#isOpen("reject")) this.toggleReject();
    this.#toggle("changes", gettext("What should be changed?"));
  }

  /** Fold the open panel; its opener gets the focus back. */
  cancelPanel() {
    const name = this.#isOpen("reject") ? "reject" : "changes";
    if (name === "reject") this.toggleReject();
    else this.toggleChanges();
    this.form.querySelector(`[data-${name}-open]`).focus();
  }

  #isOpen(name) {
    return Boolean(this.form.querySelector(`[data-${name}-panel].open`));
  }

  /** Open or close one of the two panels below the comment. */
  #toggle(name, words) {
    const opener = this.form.querySelector(`[data-${name}-open]`);
    const panel = this.form.querySelector(`[data-${name}-panel]`);
    const open = !panel.classList.contains("open");
    panel.classList.toggle("open", open);
    opener.setAttribute("aria-expanded", String(open));
    this.comment.dataset.words ??= this.comment.placeholder;
    this.comment.placeholder = open ? words : this.comment.dataset.words;
    if (open) this.comment.focus();
  }

  /** Without the words that the decision needs nothing is sent. */
  needsWords(event, words) {
    const empty = !this.comment.value.trim();
    this.comment.setCustomValidity(empty ? words : "");
    if (!empty) return;
    event.preventDefault();
    this.comment.reportValidity();
    this.comment.setCustomValidity("");
  }

  usePreset(text) {
    const written = this.comment.value.trim();
    if (!written.includes(text)) this.comment.value = written ? `${text}. ${written}` : text;
    this.comment.focus();
    this.update();
  }

  /** Whether the user has written something here, or is about to. */
  get isWriting() {
    if (this.frozen) return this.wasWriting;
    const isEdited = this.canEdit && this.changes()?.length !== 0;
    return isEdited || Boolean(this.comment?.value) || (this.form.contains(document.activeElement) && inTextField(document.activeElement));
  }

  /** Somebody else decided: the server shows both edits side by side, and decides nothing. */
  compare() {
    this.frozen.set("compare", "yes");
    const request = { source: this.form, target: "#decision", swap: "outerHTML", values: this.frozen };
    window.htmx.ajax("POST", this.form.action, request);
  }

  /** Use a whole payload as the edit; show it in the form, or in the JSON view if the form cannot. */
  use(text) {
    this.edits.value = stringify(parse(text));
    this.showMode(this.fillForm() ? "form" : "json");
    this.update();
  }

  /** Stop editing because the user cannot decide any more.  Text, focus and places stay as they are. */
  freeze() {
    if (this.frozen) return;
    this.wasWriting = this.isWriting;
    // What is disabled is not sent with the form.
    this.frozen = new FormData(this.form);
    this.form.dataset.canDecide = "no";
    this.form.querySelector("#verdict")?.classList.add("frozen");
    for (const field of this.form.querySelectorAll("fieldset :is(input, select, textarea, button)")) {
      if (field.matches(WRITTEN)) field.readOnly = true;
      else if (field !== document.activeElement) field.disabled = true;
      else field.addEventListener("blur", () => (field.disabled = true), { once: true });
    }
  }

  /** The space bar scrolls the page where a field is read-only, but this is a space of a text. */
  keyed(event) {
    if (this.frozen && event.key === " " && inTextField(event.target)) event.preventDefault();
  }

  /** What is sent from a frozen form would come too late. */
  submitting(event) {
    if (!this.frozen || event.submitter?.name === "more") return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  /** My edit and comment as text for the clipboard. */
  mine() {
    const value = this.mode === "json" ? this.edits.value : stringify(this.formValue());
    const comment = this.comment?.value.trim();
    return comment ? `${value}\n\n${comment}` : value;
  }

  // --- draft ----------------------------------------------------------------------------------

  keep(edited) {
    const comment = this.comment.value;
    if (!edited && !comment) return saveDraft(this.hold, null);
    const json = this.mode === "json" ? this.edits.value : stringify(this.formValue());
    return saveDraft(this.hold, { digest: this.digest, mode: this.mode, json, comment });
  }

  restore() {
    const draft = loadDraft(this.hold);
    if (!draft) return;
    this.comment.value = draft.comment ?? "";
    // A draft for another payload could change its meaning.
    if (draft.digest !== this.digest) return;
    this.edits.value = draft.json;
    if (draft.mode === "json" || !this.fillForm()) this.form.elements.mode.value = "json";
  }
}
