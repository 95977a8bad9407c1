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
    enableSort: false,
    enableTransform: false,
    onChange: () => {
      source.value = editor.getText();
    },
  });
  editor.set(value);
}

function start() {
  document.querySelectorAll("textarea[data-json-editor]").forEach(build);
}

if (document.readyState === "loading") {
  document.addEventListener("DOMContentLoaded", start);
} else {
  start();
}
