/* Swagger UI has dark colours of its own behind a class; here the system chooses. It builds its page late and anew, so what
   keyboards and screen readers need is added whenever it has drawn something. */

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

const REGIONS = { ".information-container": "About", ".schemes": "Keys", "section.models": "Schemas" };
const LEVELS = { "h3.opblock-tag, section.models > h4": "2", "h4.opblock-title": "3" };

function complete() {
  for (const [selector, name] of Object.entries(REGIONS)) {
    const part = document.querySelector(selector);
    part?.setAttribute("role", "region");
    part?.setAttribute("aria-label", name);
  }
  for (const [selector, level] of Object.entries(LEVELS)) {
    for (const heading of document.querySelectorAll(selector)) heading.setAttribute("aria-level", level);
  }
  // A link inside a button is a second stop of the Tab key that does the same.
  for (const link of document.querySelectorAll("button a[href]")) link.removeAttribute("href");
}
new MutationObserver(complete).observe(document, { childList: true, subtree: true });
