// Rows of a form that can be added and removed: conditions, reminders, escalation steps.  The server reads names such as `key.3.value`,
// up to the number of rows in `data-rows`.
const numberOf = (text) => Number(text.match(/\d+$/)?.[0] ?? 0);

/** Copy the last row as an empty one with the next number. */
function add(list) {
  const rows = [...list.querySelectorAll("[data-row]")];
  if (rows.length >= Number(list.dataset.rows)) return;
  const last = rows.at(-1);
  const row = last.cloneNode(true);
  row.hidden = false;
  for (const error of row.querySelectorAll(".field-error")) error.remove();
  for (const field of row.querySelectorAll("input, select, button")) {
    if (field.name) field.name = field.name.replace(/\.(\d+)\.(\w+)$/, (_all, at, part) => `.${Number(at) + 1}.${part}`);
    const label = field.getAttribute("aria-label");
    if (label) field.setAttribute("aria-label", label.replace(/\d+$/, String(numberOf(label) + 1)));
    if (field.matches("input")) field.value = "";
    field.removeAttribute("aria-invalid");
  }
  last.after(row);
  row.querySelector("input").focus();
}

/** Empty a row: empty rows are left out.  The last one stays, to be filled again. */
function remove(list, row) {
  const rows = [...list.querySelectorAll("[data-row]:not([hidden])")];
  const next = rows[rows.indexOf(row) + 1] ?? rows[rows.indexOf(row) - 1] ?? row;
  for (const field of row.querySelectorAll("input")) field.value = "";
  row.hidden = next !== row;
  next.querySelector("input").focus();
  row.querySelector("input").dispatchEvent(new Event("change", { bubbles: true }));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-add-row], [data-remove-row]");
  const list = button?.closest("[data-rows]");
  if (!list) return;
  if (button.matches("[data-add-row]")) add(list);
  else remove(list, button.closest("[data-row]"));
});
