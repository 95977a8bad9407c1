// Opens the review of an answer link: posts the token, which stands behind the "#" and is sent to no server.

function open() {
  const form = document.getElementById("answer-link");
  if (location.hash.length < 2) return;
  form.elements.token.value = decodeURIComponent(location.hash.slice(1));
  form.requestSubmit();
}

open();
addEventListener("hashchange", open);
