// Add and remove the items of lists in forms that start a run.  The decision form has its own buttons.
import { addItem, removeItem } from "./fields.js";

function onClick(event) {
  const button = event.target.closest("[data-add-item], [data-remove-item]");
  if (!button || button.closest("[data-fields]")) return;
  const group = button.closest("[data-group]");
  if (button.matches("[data-add-item]")) {
    addItem(group).querySelector("[data-input]")?.focus();
    return;
  }
  removeItem(button.closest("[data-item]"));
  group.querySelector("[data-add-item]")?.focus();
}

export function startLists() {
  document.addEventListener("click", onClick);
}
