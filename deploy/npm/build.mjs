// Copies the module, its second file, types and manifest from the site's static files: they are kept there alone.
import { copyFileSync } from "node:fs";

for (const name of ["ratchet-feedback.js", "ratchet-feedback-more.js", "ratchet-feedback.d.ts", "custom-elements.json"]) {
  copyFileSync(new URL(`../../static/rl/${name}`, import.meta.url), new URL(name, import.meta.url));
}
