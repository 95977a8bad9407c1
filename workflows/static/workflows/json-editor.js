// Puts a tree editor in front of each textarea[data-json-editor].  The textarea stays the form's
// field: what is edited in the tree is written back as text with every change.

function build(source) {
  let value;
  try {
    value = source.value.trim() ? JSON.parse(source.value) : {};
  } catch {
    return; // Left as text, with the error that the server has written beside it.
  }
  const holder = document.createElement("div");
  holder.className = `json-editor ${source.dataset.jsonEditor}`.trim();
  source.before(holder);
  source.hidden = true;
  const editor = new window.JSONEditor(holder, {
    mode: "tree",
    modes: ["tree", "text"],
    search: false, // its field and buttons have no names, and the browser finds text as well
    enableSort: false,
    enableTransform: false,
    onChange: () => {
      source.value = editor.getText();
    },
  });
  new MutationObserver(() => nameCheckboxes(holder)).observe(holder, {
    childList: true,
    subtree: true,
  });
  editor.set(value);
}

// The editor gives its check boxes of true and false no name: each takes that of its field.
function nameCheckboxes(holder) {
  for (const box of holder.querySelectorAll("input[type=checkbox]:not([aria-label])")) {
    const field = box.closest("table")?.querySelector(".jsoneditor-field");
    box.setAttribute("aria-label", field?.textContent || "value");
  }
}

function start() {
  document.querySelectorAll("textarea[data-json-editor]").forEach(build);
}

if (document.readyState === "loading") {
  document.addEventListener("DOMContentLoaded", start);
} else {
  start();
}
