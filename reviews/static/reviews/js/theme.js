// Sets the colours before the first paint, so it is a plain blocking script.
// It shares its key with Django's admin: one choice for the whole product.
"use strict";
{
  const root = document.documentElement;
  root.classList.add("js");
  const stored = () => {
    try {
      return localStorage.getItem("theme") || "auto";
    } catch {
      return "auto";
    }
  };
  const show = (choice) => {
    root.dataset.theme = choice;
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === choice));
    }
  };
  show(stored());
  document.addEventListener("DOMContentLoaded", () => show(stored()));
  window.addEventListener("storage", (event) => event.key === "theme" && show(stored()));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-choice]");
    if (!button) return;
    try {
      localStorage.setItem("theme", button.dataset.themeChoice);
    } catch {
      // Storage is off: the choice lasts as long as the page.
    }
    show(button.dataset.themeChoice);
  });
}
