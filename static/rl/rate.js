/* The rating page without page loads: the next answer is fetched ahead and shown at once, the decision is sent meanwhile.
   If it cannot be sent, the answer comes back with its tags and its note. The page works without this file too. */

import { ask, post as postForm } from "./ask.js";

const $ = (id) => document.getElementById(id);
const form = $("form"), page = $("rate"), article = $("item"), dialog = $("keys");
const token = form.elements.csrfmiddlewaretoken.value;

let current = form.elements.trace.value ? readItem() : null;
let ahead; // the answer after this one; null: there is none; undefined: not known yet
let busy = false;

// --- the server ------------------------------------------------------------------------------------------------------

/** This page's own, with the filters in use. */
const address = (parameters = {}) => {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(parameters)) query.set(name, value);
  return `${location.pathname}?${query}`;
};
const post = (fields) => postForm(address(), token, fields);

async function fetchAhead() {
  const shown = current?.trace;
  if (!shown) return;
  try {
    const { item } = await ask(address({ showing: shown }));
    if (current?.trace === shown && ahead === undefined) ahead = item;
  } catch (error) {
    console.info(`The next answer is fetched later: ${error.message}`);
  }
}

// --- what is on the screen -------------------------------------------------------------------------------------------

function readItem() {
  const before = [...$("before-list").children].map((line) => ({
    role: line.querySelector("b").textContent, content: line.querySelector(".text").textContent,
  }));
  return {
    trace: form.elements.trace.value, question: $("question").textContent, answer: $("answer").textContent, before,
    drawing: $("drawing").hidden ? null : readDrawing(), tags: [...form.elements.tags ?? []].map((box) => box.value),
  };
}

function readDrawing() {
  const text = (selector, inside = $("drawing")) => inside.querySelector(selector)?.textContent ?? "";
  return {
    heading: text("figcaption .soft"), title: text("figcaption b"),
    size: $("drawing").querySelector(".widget").className.replace("widget ", ""),
    marks: [...$("drawing").querySelectorAll(".mark")].map((mark) => mark.textContent),
    figures: [...$("drawing").querySelectorAll("dl > div")].map((row) => ({
      label: text("dt", row), text: text("dd", row), share: row.querySelector("meter")?.value ?? null,
    })),
  };
}

function show(item) {
  current = item;
  form.hidden = !item;
  $("finished").hidden = Boolean(item);
  if (item) fill(item);
  (item ? article : $("finished")).focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function fill(item) {
  form.reset();
  form.elements.trace.value = item.trace;
  $("question").textContent = item.question;
  $("answer").textContent = item.answer;
  $("answer").scrollTop = 0;
  $("answer").hidden = Boolean(item.drawing);
  $("drawing").hidden = !item.drawing;
  $("drawing").replaceChildren(...(item.drawing ? [drawn(item.drawing)] : []));
  if (item.tags) $("tags").replaceChildren($("tags").querySelector("legend"), ...item.tags.map(tag));
  $("before").hidden = !item.before.length;
  $("before").open = false;
  $("before-list").replaceChildren(...item.before.map(message));
}

function part(name, text, className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

/** What the server's template draws too: text only, whatever the answer holds. */
function drawn({ heading, title, size, marks, figures }) {
  const widget = part("figure", "", `widget ${size}`), caption = part("figcaption", ""), list = part("dl", "");
  caption.append(...(heading ? [part("span", heading, "soft")] : []), part("b", title));
  for (const figure of figures) {
    const row = part("div", ""), value = part("dd", figure.text);
    if (figure.share !== null) {
      const bar = part("meter", "");
      bar.value = figure.share;
      bar.setAttribute("aria-hidden", "true");
      value.append(bar);
    }
    row.append(part("dt", figure.label), value);
    list.append(row);
  }
  const below = part("p", "", "marks");
  below.append(...marks.map((mark) => part("span", mark, "mark")));
  widget.append(caption, list, below);
  return widget;
}

function tag(name) {
  const label = part("label", "", "tag"), box = document.createElement("input");
  Object.assign(box, { type: "checkbox", name: "tags", value: name });
  label.append(box, ` ${name}`);
  return label;
}

function message({ role, content }) {
  const line = document.createElement("p"), who = document.createElement("b"), text = document.createElement("span");
  line.className = "message";
  text.className = "text";
  text.dir = "auto";
  who.textContent = role;
  text.textContent = content;
  line.append(who, " ", text);
  return line;
}

function say(text, isProblem = false) {
  $("status").textContent = text;
  $("status").classList.toggle("problem", isProblem);
}

function showProgress({ progress, decisions }) {
  $("progress").max = progress.total;
  $("progress").value = progress.done;
  $("progress-text").textContent = progress.text;
  $("decisions").hidden = !decisions.length;
  $("decision-list").replaceChildren(...decisions.map(decisionLine));
}

function decisionLine({ event, good, question }) {
  const line = $("decision-template").content.cloneNode(true);
  line.querySelector(".badge").classList.add(good ? "good" : "bad");
  line.querySelector(".badge").textContent = good ? "Good" : "Bad";
  line.querySelector(".decision-question").textContent = question;
  line.querySelector("[name=event]").value = event;
  return line;
}

// --- decisions -------------------------------------------------------------------------------------------------------

async function whileBusy(work) {
  if (busy) return;
  setBusy(true);
  try {
    await work();
  } catch (error) {
    say(`Not saved: ${error.message}`, true);
  } finally {
    setBusy(false);
  }
}

function setBusy(on) {
  busy = on;
  page.setAttribute("aria-busy", String(on));
}

/** Sends the form with one more field, and goes on to the next answer. */
async function decide(name, value, said) {
  const fields = [...new FormData(form), [name, value]], left = current, next = ahead;
  if (next) show(next);
  say(said);
  let answer;
  try {
    answer = await post([...fields, ["showing", next?.trace ?? ""]]);
  } catch (error) {
    if (next) show(left);
    restore(fields);
    throw error;
  }
  showProgress(answer);
  ahead = next ? answer.item : undefined;
  if (!next) {
    show(answer.item);
    fetchAhead();
  }
}

function restore(fields) {
  const tags = fields.filter(([name]) => name === "tags").map(([, value]) => value);
  for (const box of form.querySelectorAll("[name=tags]")) box.checked = tags.includes(box.value);
  $("notes").value = fields.find(([name]) => name === "notes")[1];
}

async function undo(event = "") {
  const left = current;
  const answer = await post([["action", "undo"], ["event", event]]);
  showProgress(answer);
  show(answer.item);
  ahead = left ?? undefined;
  say("Undone. Rate it again, or skip it.");
}

const ACTIONS = {
  good: () => current && whileBusy(() => decide("value", "1", "Rated good.")),
  bad: () => current && whileBusy(() => decide("value", "0", "Rated bad.")),
  skip: () => current && whileBusy(() => decide("action", "skip", "Skipped. It comes again at the end.")),
  undo: () => whileBusy(() => undo()),
  note: () => $("notes").focus(),
  tags: () => form.querySelector("[name=tags]").focus(),
  help: () => dialog.showModal(),
};

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const pressed = event.submitter;
  ACTIONS[pressed.value === "skip" ? "skip" : pressed.value === "1" ? "good" : "bad"]();
});

$("decision-list").addEventListener("submit", (event) => {
  event.preventDefault();
  whileBusy(() => undo(event.target.elements.event.value));
});

// --- the keyboard ----------------------------------------------------------------------------------------------------

const KEYS = {
  1: "good", u: "good", 2: "bad", d: "bad", s: "skip", " ": "skip", z: "undo", backspace: "undo", n: "note", t: "tags",
  "?": "help",
};
const CONTROLS = "a[href], button, input, select, textarea, summary, [contenteditable]";
const OFF = "ratchet-keys-off";

/** Single keys do nothing while somebody types, uses a control or a dialog, holds a key down, or waits for the server. */
function isShortcut(event) {
  const altGr = event.getModifierState("AltGraph") && event.key !== "?";
  return $("keys-on").checked && !busy && !event.repeat && !event.isComposing && !altGr
    && !event.ctrlKey && !event.metaKey && !(event.altKey && event.key !== "?")
    && !document.querySelector("dialog[open]") && !event.target.closest(CONTROLS);
}

function flash(action) {
  const button = form.querySelector({ good: "[value='1'].vote", bad: "[value='0'].vote", skip: "[value=skip]" }[action] ?? "_");
  button?.classList.add("pressed");
  setTimeout(() => button?.classList.remove("pressed"), 200);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && form.contains(event.target)) article.focus();
  const action = isShortcut(event) && KEYS[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  flash(action);
  ACTIONS[action]();
});

// Somebody who sets a tag with the mouse goes on with the keys at once; with the keyboard the focus stays where it is.
let byPointer = false;
form.addEventListener("pointerdown", () => { byPointer = true; });
form.addEventListener("keydown", () => { byPointer = false; });
form.addEventListener("change", (event) => {
  if (byPointer && event.target.name === "tags") article.focus({ preventScroll: true });
});

function switchKeys(on) {
  $("keys-on").checked = on;
  page.classList.toggle("keys-off", !on);
}

$("keys-on").addEventListener("change", (event) => {
  switchKeys(event.target.checked);
  localStorage.setItem(OFF, event.target.checked ? "" : "1");
});
$("keys-open").addEventListener("click", () => dialog.showModal());
$("keys-line").hidden = false;
switchKeys(localStorage.getItem(OFF) !== "1");
fetchAhead();
