// A half-written decision survives a reload: kept in this tab alone, gone once the decision is made.

const key = (hold) => `holdpoint.draft.${hold}`;

export function saveDraft(hold, draft) {
  try {
    if (draft) sessionStorage.setItem(key(hold), JSON.stringify(draft));
    else sessionStorage.removeItem(key(hold));
  } catch {
    // Storage is full or off: the text still stands in the form.
  }
}

export function loadDraft(hold) {
  try {
    return JSON.parse(sessionStorage.getItem(key(hold)) ?? "null");
  } catch {
    return null;
  }
}
