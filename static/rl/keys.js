/* One key, one decision: the keyboard of the pages on which people rate. On a page that imports it a double click is one
   click, and a key that is held down or chatters is one key.

   const keys = useKeys({ dialog, commands, onSend });

   dialog    an empty <dialog> with an aria-labelledby; filled here: the table of keys, "Change" for each, the switch
   commands  [{ name: "left", keys: ["ArrowLeft", "a"], label: "A is better", run(event) {} }, …]; a command whose `run`
             returns false leaves the key to the browser; `isFixed`: its keys cannot be changed. Two pages that have the
             same command give it the same name: a key that somebody chose is kept under it for all of them
   onSend    (field) => {}: Ctrl+Enter or Cmd+Enter in a text field
   keys.use(commands)   other commands from now on (another rubric)
   keys.openHelp()      shows the dialog

   Elements with data-command="left" show their key in a <kbd> and name it in aria-keyshortcuts. What they do when clicked is
   for the page. Single keys do nothing while somebody types, is on a control, has a dialog open, composes, or holds Ctrl, Cmd, Alt or AltGr; data-scrolls marks areas that keep arrows and Space for scrolling while
   they have the focus. Needs keys.css. */

import { compose } from "./words.js";

const OFF = "ratchet-keys-off", CHOSEN = "ratchet-keys";
const CHATTER = 40; // milliseconds: worn switches take up to 30, the quickest fingers 50
const CONTROLS = "a[href], button, input, select, textarea, summary, [contenteditable], [role=button]";
const TYPING = "textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])";
const SCROLLING = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", " "]);
const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": gettext("Space") };
const ARIA = { " ": "Space", "?": "Shift+?" };
const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta", "AltGraph"]);
const FOR_THE_BROWSER = new Set([...MODIFIERS, "Tab", "Enter", "CapsLock", "Dead"]);

const nameOf = (key) => NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key);
const plain = (key) => (key.length === 1 ? key.toLowerCase() : key);

/** What this browser keeps; nothing where it gives no storage. */
function load(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // a browser without storage forgets it with the page
  }
}

function loadChosen() {
  try {
    const chosen = JSON.parse(load(CHOSEN) ?? "{}");
    return Object.fromEntries(Object.entries(chosen ?? {}).filter(([, key]) => typeof key === "string"));
  } catch {
    return {};
  }
}

/** Whether a key pressed here and now may be a command at all. */
export function isFree(event) {
  const altGr = event.getModifierState("AltGraph") && event.key !== "?";
  const scrolls = SCROLLING.has(event.key) && (event.shiftKey || event.target.closest("[data-scrolls]"));
  return !event.defaultPrevented && !event.isComposing && !altGr && !scrolls
    && !event.ctrlKey && !event.metaKey && !(event.altKey && event.key !== "?")
    && !document.querySelector("dialog[open]") && !event.target.closest(CONTROLS);
}

const presses = new Map(); // key: when it was last pressed, also as an echo

function isEcho(event) {
  if (event.type === "click") return event.detail > 1;
  const { key, timeStamp, repeat } = event, last = presses.get(key);
  presses.set(key, timeStamp);
  return repeat || timeStamp - last < CHATTER;
}

/** Keeps echoes from buttons and commands; what is typed, and keys that scroll or move the focus, go on. */
function ignoreEcho(event) {
  if (!isEcho(event)) return;
  const button = event.target.closest("button"), isChord = event.ctrlKey || event.metaKey;
  if (event.type === "click" ? !button : event.target.closest(TYPING) && !isChord) return;
  event.stopImmediatePropagation();
  if (button && ["click", "Enter", " "].includes(event.key ?? event.type)) event.preventDefault();
}
for (const name of ["click", "keydown"]) document.addEventListener(name, ignoreEcho, true);

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

class Keyboard {
  #commands = [];
  #chosen = loadChosen();
  #isOn = load(OFF) !== "1";
  #waiting = null; // the command that gets the next key

  constructor({ dialog, commands, onSend }) {
    this.dialog = dialog;
    this.onSend = onSend;
    this.status = element("p", { className: "keys-status" });
    this.status.setAttribute("role", "status");
    this.rows = element("tbody");
    this.#fillDialog();
    this.use(commands);
    document.addEventListener("keydown", (event) => this.#press(event));
    dialog.addEventListener("close", () => this.#waitFor(null));
  }

  use(commands) {
    this.#commands = commands;
    this.#show();
  }

  openHelp() {
    this.status.textContent = "";
    this.dialog.showModal();
  }

  keysOf({ name, keys, isFixed }) {
    if (isFixed) return keys;
    return this.#chosen[name] ? [this.#chosen[name]] : keys.filter((key) => !this.#isTaken(key, name));
  }

  /** By somebody's own choice for another command. */
  #isTaken(key, name) {
    return this.#commands.some((other) => other.name !== name && this.#chosen[other.name] === plain(key));
  }

  #press(event) {
    if (this.#waiting) return this.#choose(event);
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.closest("textarea, input")) {
      if (event.isComposing || !this.onSend) return undefined;
      event.preventDefault();
      return this.onSend(event.target);
    }
    if (!this.#isOn || !isFree(event)) return undefined;
    const pressed = plain(event.key);
    const command = this.#commands.find((each) => this.keysOf(each).some((key) => plain(key) === pressed));
    if (!command || command.run(event) === false) return undefined;
    event.preventDefault();
    return flash(command.name);
  }

  // --- the dialog ---------------------------------------------------------------------------------------------------

  #fillDialog() {
    const title = element("h2", { id: this.dialog.getAttribute("aria-labelledby"), textContent: gettext("Keyboard") });
    const head = element("tr", {}, ...[gettext("Key"), gettext("Does"), gettext("Change")].map((text) => element("th", { scope: "col" }, text)));
    this.box = element("input", { type: "checkbox", checked: this.#isOn });
    this.box.addEventListener("change", () => this.#switch(this.box.checked));
    const reset = element("button", { type: "button", className: "plain", textContent: gettext("As they were") });
    reset.addEventListener("click", () => this.#forget());
    const close = element("form", { method: "dialog" }, element("button", { className: "primary", textContent: gettext("Close") }));
    this.dialog.classList.add("keys");
    this.dialog.replaceChildren(
      title, element("table", {}, element("thead", {}, head), this.rows), this.status,
      element("p", { className: "keys-choice" }, element("label", {}, this.box, ` ${gettext("Use these keys")}`), reset), close,
    );
  }

  #show() {
    document.body.classList.toggle("keys-off", !this.#isOn);
    const shown = this.#commands.filter(({ keys, isFixed }) => keys.length || !isFixed);
    this.rows.replaceChildren(...shown.map((command) => this.#row(command)));
    for (const command of this.#commands) {
      const keys = this.keysOf(command);
      for (const button of document.querySelectorAll(`[data-command="${command.name}"]`)) showKeys(button, keys, this.#isOn);
    }
  }

  #row(command) {
    const keys = this.keysOf(command), isRange = keys.length > 3;
    const [shown, between] = isRange ? [[keys[0], keys.at(-1)], ` ${gettext("to")} `] : [keys, ` ${gettext("or")} `];
    const names = shown.flatMap((key, number) => [number ? between : "", element("kbd", {}, nameOf(key))]);
    const change = element("button", { type: "button", className: "plain", textContent: gettext("Change") });
    change.setAttribute("aria-label", compose(gettext("Change the key: %(label)s"), command));
    change.dataset.changes = command.name;
    change.addEventListener("click", () => this.#waitFor(command));
    const cells = [names, [command.label], command.isFixed ? [] : [change]];
    return element("tr", {}, ...cells.map((content) => element("td", {}, ...content)));
  }

  #switch(on) {
    this.#isOn = on;
    keep(OFF, on ? "" : "1");
    this.#show();
  }

  #waitFor(command) {
    this.#waiting = command;
    this.status.textContent = command ? compose(gettext("Press the new key for “%(label)s”, or Esc."), command) : "";
  }

  #choose(event) {
    if (MODIFIERS.has(event.key)) return; // on the way to "?", perhaps
    event.preventDefault();
    const command = this.#waiting, key = plain(event.key);
    this.#waitFor(null);
    if (key === "Escape") return;
    this.status.textContent = this.#objection(command, key, event);
    if (this.status.textContent) return;
    this.#chosen[command.name] = key;
    keep(CHOSEN, JSON.stringify(this.#chosen));
    this.#show();
    this.status.textContent = compose(gettext("“%(label)s” is %(key)s now."), { label: command.label, key: nameOf(key) });
    this.rows.querySelector(`[data-changes="${command.name}"]`).focus();
  }

  /** Why a key cannot be had; empty where it can. */
  #objection(command, key, { ctrlKey, metaKey, altKey }) {
    if (FOR_THE_BROWSER.has(key) || ctrlKey || metaKey || altKey) return gettext("This key belongs to the browser. Choose another.");
    const others = this.#commands.filter((each) => each.name !== command.name);
    const other = others.find((each) => this.keysOf(each).some((has) => plain(has) === key));
    return other ? compose(gettext("%(key)s is “%(label)s”. Choose another."), { label: other.label, key: nameOf(key) }) : "";
  }

  #forget() {
    this.#chosen = {};
    keep(CHOSEN, "{}");
    this.#show();
    this.status.textContent = gettext("All keys are as they were.");
  }
}

function showKeys(button, keys, isOn) {
  let shown = button.querySelector("kbd");
  if (!shown) {
    shown = element("kbd", { ariaHidden: "true" });
    button.append(" ", shown);
  }
  shown.textContent = keys.length ? nameOf(keys[0]) : "";
  shown.hidden = !keys.length;
  const spoken = keys.map((key) => ARIA[key] ?? (key.length === 1 ? key.toUpperCase() : key)).join(" ");
  if (isOn && spoken) button.setAttribute("aria-keyshortcuts", spoken);
  else button.removeAttribute("aria-keyshortcuts");
}

/** Lets a button show that its key was heard. */
function flash(name) {
  for (const button of document.querySelectorAll(`[data-command="${name}"]`)) {
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), 200);
  }
}

export function useKeys(options) {
  return new Keyboard(options);
}
