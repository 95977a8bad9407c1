// A button with data-copy copies the text of the field it names to the clipboard.
import { toast } from "./toast.js";
import { gettext } from "./words.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const field = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(field.value);
    toast(gettext("Copied."));
  } catch {
    // Without permission to write, select the text, so that a keystroke copies it.
    field.select();
    toast(gettext("Press Ctrl+C to copy."));
  }
});
