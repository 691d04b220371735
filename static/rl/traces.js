/* The list of traces: ticks all of the page at once, and counts those that are ticked. */

import { compose } from "./words.js";

const all = document.getElementById("pick-all"), count = document.getElementById("picked-count");
const boxes = [...document.querySelectorAll('input[name="trace"]')];

function show() {
  const picked = boxes.filter((box) => box.checked).length;
  count.textContent = picked ? compose(gettext("%(picked)s picked"), { picked }) : "";
  all.checked = picked === boxes.length;
  all.indeterminate = picked > 0 && picked < boxes.length;
}

if (all) {
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    show();
  });
  for (const box of boxes) box.addEventListener("change", show);
  show();
}
