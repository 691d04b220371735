// node build.mjs PACKAGES EXAMPLES OUT: builds one page for each framework around its example.
//   PACKAGES  the folder that npm installed in, with ratchet-feedback in it
//   EXAMPLES  the examples: react-19.jsx, react-18.jsx, vue.vue, preact.jsx, svelte.svelte
//   OUT       where react-19.js and the others go
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, examples, out] = process.argv.slice(2);
const require = createRequire(join(packages, "package.json"));
const { build } = require("esbuild");
const isCustomElement = (tag) => tag === "ratchet-feedback";

const vue = {
  name: "vue",
  setup(builder) {
    const { compileScript, parse } = require("vue/compiler-sfc");
    builder.onLoad({ filter: /\.vue$/ }, ({ path }) => {
      const { descriptor } = parse(readFileSync(path, "utf8"), { filename: path });
      const templateOptions = { compilerOptions: { isCustomElement } };
      return { contents: compileScript(descriptor, { id: "example", inlineTemplate: true, templateOptions }).content };
    });
  },
};

const svelte = {
  name: "svelte",
  setup(builder) {
    const { compile, compileModule } = require("svelte/compiler");
    builder.onLoad({ filter: /\.svelte(\.js)?$/ }, ({ path }) => {
      const compiler = path.endsWith(".js") ? compileModule : compile;
      return { contents: compiler(readFileSync(path, "utf8"), { filename: path, dev: true }).js.code };
    });
  },
};

const react18 = { react: "react-18", "react-dom": "react-dom-18" };
const node = { platform: "node", format: "cjs", outExtension: { ".js": ".cjs" }, logOverride: { "empty-import-meta": "silent" } };
const pages = [
  { name: "react-19", entry: "react.jsx", example: "react-19.jsx" },
  { name: "react-18", entry: "react.jsx", example: "react-18.jsx", alias: react18 },
  { name: "hydrated", entry: "hydrated.jsx", example: "react-19.jsx" },
  { name: "server", entry: "server.jsx", example: "react-19.jsx", ...node },
  { name: "vue", entry: "vue.js", example: "vue.vue" },
  { name: "preact", entry: "preact.jsx", example: "preact.jsx", jsxImportSource: "preact" },
  { name: "svelte", entry: "svelte.svelte.js", example: "svelte.svelte" },
];

await Promise.all(pages.map(({ name, entry, example, alias, ...options }) => build({
  entryPoints: { [name]: join(import.meta.dirname, entry) },
  outdir: out,
  alias: { example: join(examples, example), ...alias },
  nodePaths: [join(packages, "node_modules")],
  bundle: true,
  charset: "utf8",
  conditions: ["development"],
  define: { "process.env.NODE_ENV": '"development"', __VUE_OPTIONS_API__: "true", __VUE_PROD_DEVTOOLS__: "false",
    __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false" },
  format: "esm",
  jsx: "automatic",
  logLevel: "warning",
  plugins: [vue, svelte],
  ...options,
})));
