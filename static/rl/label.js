/* One key, one label. The page works without this file too: the keys press the buttons that are there. */

const KEYS = {
  1: '[name="value"][value="1"]', u: '[name="value"][value="1"]',
  2: '[name="value"][value="0"]', d: '[name="value"][value="0"]',
  s: '[name="action"][value="skip"]',
};

const off = localStorage.getItem("ratchet-keys-off") === "1"; // the switch on the rating page
document.body.classList.toggle("keys-off", off);

let sent = false;
addEventListener("pageshow", () => { sent = false; });

document.addEventListener("keydown", (event) => {
  if (off || event.isComposing || event.getModifierState("AltGraph")) return;
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("textarea, input:not([type=checkbox]), select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key.toLowerCase();
  if (key === "n" && document.getElementById("notes")) {
    event.preventDefault();
    document.getElementById("notes").focus();
    return;
  }
  const button = key === "z"
    ? document.querySelector("#undo-form button")
    : KEYS[key] && document.querySelector(`#label-form ${KEYS[key]}`);
  if (!button || sent) return;
  event.preventDefault();
  sent = true; // a second key before the next page would label an answer that nobody has read
  button.click();
});
