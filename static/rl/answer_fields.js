/* The fields of an answer that is JSON, one control each, as the server describes them ({ name, control, options, value,
   empty }), and the answer that they make. What nobody changes stays as it was written. */

import { compose } from "./words.js";

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const textOf = (shown) => (
  /[\n\r]/.test(shown) || shown.length > 60 ? element("textarea", { rows: 3 }) : element("input", { type: "text" })
);

function selectOf({ name, options, value }, shown) {
  const values = new Set([...(value ? [] : [""]), ...options, shown]);
  const select = element("select", {}, ...[...values].map((each) => new Option(each || "–", each)), new Option(gettext("another …")));
  select.addEventListener("change", () => {
    if (select.selectedIndex < select.options.length - 1) return;
    const box = dress(textOf(""), name);
    select.replaceWith(box);
    box.focus();
  });
  return select;
}

/** What all controls have. */
function dress(control, name) {
  control.dataset.field = "";
  return Object.assign(control, { ariaLabel: name, autocomplete: "off", maxLength: 20_000, dir: "auto" });
}

function controlOf(field) {
  const shown = field.draft ?? field.value;
  if (field.control === "checkbox") return dress(element("input", { type: "checkbox", checked: shown === "true" }), field.name);
  const isNumber = field.control === "number", isSelect = field.control === "select";
  const control = isSelect ? selectOf(field, shown) : isNumber ? element("input", { type: "number", step: "any" }) : textOf(shown);
  control.value = shown;
  return dress(control, field.name);
}

const plain = (text) => text.replace(/\r\n?/g, "\n"); // as a box gives it back
const stateOf = (control) => (control.type === "checkbox" ? String(control.checked) : plain(control.value));
const startOf = ({ control, value }) => (control === "checkbox" ? value || "false" : plain(value));

/** The value as JSON; empty: the field is left out. Throws an error whose message is for people. */
function sourceOf(field, control) {
  const state = stateOf(control), isText = ["text", "select"].includes(field.control);
  if (control.validity.badInput) throw new Error(compose(gettext("%(name)s: write a number."), field));
  if (state === "") return field.empty;
  if (state === startOf(field)) return isText ? JSON.stringify(field.value) : state;
  if (isText || field.control === "checkbox") return isText ? JSON.stringify(state) : state;
  try {
    return JSON.stringify(JSON.parse(state));
  } catch {
    throw new Error(compose(gettext("%(name)s: this is not JSON, such as [1, 2] or {\"a\": true}."), field));
  }
}

export class AnswerFields {
  #fields = [];

  constructor(box) {
    this.box = box;
  }

  show(fields) {
    this.#fields = fields;
    const rows = fields.map((field) => (
      element("label", { className: `field ${field.control}` }, element("span", { textContent: field.name }), controlOf(field))
    ));
    this.box.replaceChildren(...this.box.querySelectorAll("legend"), ...rows);
    this.box.hidden = !fields.length;
  }

  get isChanged() {
    return this.#rows().some(([field, control]) => control.validity.badInput || stateOf(control) !== startOf(field));
  }

  /** The answer with what was changed; null where nothing was. Throws an error whose message is for people. */
  get text() {
    if (!this.isChanged) return null;
    const sources = this.#rows().map(([field, control]) => [JSON.stringify(field.name), sourceOf(field, control)]);
    return `{${sources.filter(([, source]) => source).map((pair) => pair.join(": ")).join(", ")}}`;
  }

  /** Keeps what was written with the fields, for when they are shown again. */
  remember() {
    for (const [field, control] of this.#rows()) field.draft = stateOf(control);
  }

  focus() {
    this.box.querySelector("[data-field]")?.focus();
  }

  #rows() {
    const controls = this.box.querySelectorAll("[data-field]");
    return this.#fields.map((field, at) => [field, controls[at]]);
  }
}
