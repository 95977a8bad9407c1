// The button on the notification settings that subscribes this browser to web push.
import { send } from "./request.js";
import { toast } from "./toast.js";
import { gettext } from "./words.js";

const form = document.querySelector("[data-push]");
const supported = "serviceWorker" in navigator && "PushManager" in window;

/** Return the bytes of base64url text. */
function bytes(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

async function subscribe() {
  if ((await Notification.requestPermission()) !== "granted") {
    toast(gettext("The browser does not allow notifications of this site. Change that in its settings."));
    return;
  }
  const worker = await navigator.serviceWorker.register(form.dataset.pushWorker);
  const subscription = await worker.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: bytes(form.dataset.pushKey),
  });
  const { endpoint, keys } = subscription.toJSON();
  const body = new FormData(form);
  body.set("address", endpoint);
  body.set("p256dh", keys.p256dh);
  body.set("auth", keys.auth);
  body.set("label", navigator.userAgentData?.platform || navigator.platform || "");
  const response = await send(form.action, { method: "POST", body });
  if (response.ok) location.reload();
  else toast((await response.json()).errors?.map((each) => each.message).join(" ") ?? "");
}

if (form) {
  form.hidden = !supported;
  document.querySelector("[data-push-missing]").hidden = supported;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    subscribe().catch(() => toast(gettext("This browser could not subscribe. Try again later.")));
  });
}
