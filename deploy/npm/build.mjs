// Copies the module, its second file, types and manifest from the site's static files: they are kept there alone.
import { copyFileSync, readFileSync } from "node:fs";

const { files } = JSON.parse(readFileSync(new URL("package.json", import.meta.url), "utf8"));
for (const name of files.filter((name) => name !== "index.js" && name !== "README.md")) {
  copyFileSync(new URL(`../../static/rl/${name}`, import.meta.url), new URL(name, import.meta.url));
}
