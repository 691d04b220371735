/* Beside each invitation: a button that copies its link, and the link as a QR code for a phone. */

import { generate } from "../vendor/lean-qr/index.mjs";
import { toSvg } from "../vendor/lean-qr/svg.mjs";
import { compose } from "./words.js";

const COPIED = 2000; // milliseconds

function button(text, guest) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-label", compose(gettext("%(text)s for %(guest)s"), { text, guest }));
  return made;
}

/** Where the page may not write to the clipboard, which a browser allows over https only, the link is selected instead. */
async function copy(link, shown) {
  try {
    await navigator.clipboard.writeText(link);
    return gettext("Copied");
  } catch {
    getSelection().selectAllChildren(shown);
    return gettext("Selected: copy it");
  }
}

/** Drawn when it is opened: black on white in the dark too, as some cameras read no other. */
function draw(link, guest) {
  const details = document.createElement("details"), summary = document.createElement("summary");
  summary.textContent = gettext("QR code");
  details.className = "qr";
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (details.querySelector("svg")) return;
    const svg = toSvg(generate(link), document, { off: "white" });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", compose(gettext("The link of %(guest)s as a QR code"), { guest }));
    details.append(svg);
  });
  return details;
}

for (const form of document.querySelectorAll("form[data-link]")) {
  const { link, guest } = form.dataset, copies = button(gettext("Copy link"), guest), said = document.createElement("span");
  said.setAttribute("role", "status");
  said.className = "small soft";
  copies.addEventListener("click", async () => {
    said.textContent = await copy(link, form.previousElementSibling);
    setTimeout(() => { said.textContent = ""; }, COPIED);
  });
  form.prepend(copies, said);
  form.append(draw(link, guest));
}
