/* One key, one label. The page works without this file too: the keys press the buttons that are there. */

import { useKeys } from "./keys.js";

let sent = false;
addEventListener("pageshow", () => { sent = false; });

/** A second key before the next page would label an answer that nobody has read. */
function press(command) {
  if (sent) return;
  sent = true;
  document.querySelector(`#label-form [data-command="${command}"]`).click();
}

const notes = document.getElementById("notes"), dialog = document.getElementById("keys-dialog");
if (dialog) {
  const keys = useKeys({
    dialog,
    commands: [
      { name: "good", keys: ["1", "u"], label: gettext("good"), run: () => press("good") },
      { name: "bad", keys: ["2", "d"], label: gettext("bad"), run: () => press("bad") },
      { name: "note", keys: ["n"], label: gettext("write a note; Esc leaves it"), run: () => notes.focus() },
      { name: "help", keys: ["?"], label: gettext("this list"), run: () => keys.openHelp() },
    ],
  });
  notes.addEventListener("keydown", (event) => { if (event.key === "Escape") notes.blur(); });
  document.getElementById("keys-open").addEventListener("click", () => keys.openHelp());
}
