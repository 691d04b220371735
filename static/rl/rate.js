/* The rating page. Items are fetched ahead and shown at once; what is decided goes into the outbox, and nothing ever waits
   for the server. An item whose decision was refused comes back. The page works without this file too, as a form. */

import { AnswerFields } from "./answer_fields.js";
import { drawItem, toggleWhole } from "./items.js";
import { useKeys } from "./keys.js";
import { Outbox } from "./outbox.js";
import { say, showDecisions, showNames, showProgress, showValues, showWaiting } from "./rate_lists.js";
import { commandsOf } from "./rate_rubrics.js";
import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);
const page = $("rate"), form = $("form"), article = $("item");
const { rubric, address, queue, rater } = page.dataset;
const AHEAD = Number(page.dataset.ahead);
const REMEMBERED = 30; // decided items that can be shown again without asking
const RENEWAL = 60_000; // milliseconds; well below the time of a lock
const HELD = 20; // claims that one message may renew

let current = null, ahead = [], past = []; // past: [{ item, decision }], newest last
let undone = null; // a claim whose item the server is asked to give back
let stored = read("stored"); // the last decisions as the server has them
let values = []; // of a closed set of answers
let isActive = false;

/** What the server wrote into the page. */
function read(id) {
  return JSON.parse($(id).textContent);
}

// --- what is on the screen -----------------------------------------------------------------------------------------------

function show(item) {
  current = item;
  form.hidden = !item;
  $("loading").hidden = Boolean(item);
  if (!item) return;
  $("finished").hidden = true;
  form.reset();
  form.elements.claim.value = item.claim;
  drawItem(item);
  if (rubric === "edit") form.elements.text.value = item.answers[0].text;
  if (rubric === "thumbs") askFor(item);
  focusOn(article);
  window.scrollTo(0, 0);
}

function focusOn(element) {
  element.focus({ preventScroll: true });
}

/** A thumb; or, where answers are right or wrong, what would be right. */
function askFor(item) {
  const isClosed = item.form?.kind === "closed";
  fields.show(item.form?.fields ?? []);
  showValues(isClosed ? values : [], item.form?.answer);
  setWord("bad", item.form ? gettext("Wrong") : gettext("Bad"));
  nameGood();
  rubricCommands = commandsOf(rubric, desk, item.form, values);
  keys.use(allCommands());
}

const nameGood = () => setWord("good", fields.isChanged ? gettext("Save the correction") : current.form ? gettext("Right") : gettext("Good"));

function setWord(name, text) {
  form.querySelector(`[data-command=${name}] .word`).textContent = text;
}

const showNext = () => show(ahead.shift() ?? null);

/** Shows an item out of turn, as it was left; the one that is on the screen comes after it. */
function bringBack({ item, decision }) {
  if (current && current.claim !== item.claim) ahead.unshift(current);
  ahead = ahead.filter(({ claim }) => claim !== item.claim);
  show(item);
  form.elements.notes.value = decision.notes ?? "";
  for (const box of form.querySelectorAll("[name=tags]")) box.checked = decision.tags?.includes(box.value) ?? false;
  if (decision.text && rubric === "edit") form.elements.text.value = decision.text;
}

/** An item that was skipped comes again, when few are left at once. */
const isAhead = (number) => ahead.some(({ claim }) => claim === number);

function listDecisions() {
  const settled = outbox.settled;
  const known = new Set([...settled, undone, current?.claim, ...ahead.map(({ claim }) => claim)]);
  const own = past.filter(({ decision: { claim } }) => settled.has(claim) || isAhead(claim)).reverse();
  const lines = own.map(({ item: { claim, question } }) => (
    { claim, label: settled.has(claim) ? gettext("To send") : gettext("Skipped"), question }
  ));
  showDecisions([...lines, ...stored.filter(({ claim }) => !known.has(claim))]);
}

// --- decisions -----------------------------------------------------------------------------------------------------------

const chosenTags = () => [...form.querySelectorAll("[name=tags]:checked")].map((box) => box.value);

function settle(decision, text) {
  if (!current) return say(gettext("No item is here yet."));
  if (outbox.isFull) return say(gettext("20 decisions wait for the connection. They are kept; go on when they are sent."), true);
  const item = current, whole = { claim: item.claim, ...decision };
  if (decision.text) fields?.remember();
  const others = past.filter((entry) => entry.decision.claim !== item.claim);
  past = [...others, { item, decision: whole }].slice(-REMEMBERED);
  say(text);
  showNext();
  outbox.add(whole, item);
  return undefined;
}

const decide = (fields, text) => (
  settle({ action: "rate", ...fields, tags: chosenTags(), notes: form.elements.notes.value }, text)
);
const skip = () => settle({ action: "skip" }, gettext("Skipped. It comes again at the end."));

function undo(claim = lastClaim()) {
  if (!claim) return say(gettext("There is nothing to undo."));
  const entry = past.findLast(({ decision }) => decision.claim === claim);
  past = past.filter((each) => each !== entry);
  const isOpen = isAhead(claim) || outbox.takeBack(claim);
  if (entry) bringBack(entry);
  else undone = claim;
  if (!isOpen) outbox.add({ claim, action: "undo" }, entry?.item ?? null);
  say(gettext("Undone. Decide again, or skip it."));
  return listDecisions();
}

const lastClaim = () => (
  past.at(-1)?.decision.claim ?? Number($("decision-list").querySelector("[name=claim]")?.value ?? 0)
);

// --- the server ----------------------------------------------------------------------------------------------------------

const outbox = new Outbox({
  name: `${queue}:${rater}`,
  address: address + location.search,
  token: form.elements.csrfmiddlewaretoken.value,
  ask: () => ({
    holding: [current, ...ahead].filter(Boolean).map(({ claim }) => claim).slice(0, HELD),
    want: Math.max(0, AHEAD - ahead.length + (current ? 0 : 1)),
  }),
  onAnswer: take,
  onRefused({ decision, item }, error) {
    const isHere = current?.claim === decision.claim || isAhead(decision.claim);
    if (decision.action === "undo" && isHere) return; // a skipped item had come again by itself
    past = past.filter((entry) => entry.decision.claim !== decision.claim);
    if (item && decision.action === "rate") bringBack({ item, decision });
    say(compose(gettext("Not saved: %(reason)s"), { reason: error }), true);
    listDecisions();
  },
  onChange(waiting, problem) {
    showWaiting(waiting);
    if (problem) say(problem, true);
    listDecisions();
  },
});

function take({ items, progress, decisions, results, ...news }) {
  values = news.values;
  const settled = outbox.settled, known = new Set([current, ...ahead].filter(Boolean).map(({ claim }) => claim));
  ahead.push(...items.filter(({ claim }) => !settled.has(claim) && !known.has(claim)));
  stored = decisions;
  showProgress(progress);
  results.filter(({ revealed }) => revealed).slice(-1).forEach(({ revealed }) => showNames(revealed));
  const back = ahead.find(({ claim }) => claim === undone);
  if (back) {
    undone = null;
    bringBack({ item: back, decision: {} });
  }
  if (!current) showNext();
  if (!current && !outbox.waiting) finish();
  listDecisions();
}

function finish() {
  const isNews = $("finished").hidden;
  $("finished").hidden = false;
  $("loading").hidden = true;
  if (isNews) focusOn($("finished"));
}

// --- keys, buttons -------------------------------------------------------------------------------------------------------

const fields = $("fields") && new AnswerFields($("fields"));
const desk = {
  decide, say, current: () => current, corrected: () => fields.text,
  focus: (id) => (id === "fields" ? fields.focus() : $(id).focus()),
};
let rubricCommands = commandsOf(rubric, desk, null, []);
const usual = [
  { name: "skip", keys: ["s", " "], label: gettext("skip; it comes again at the end"), run: skip },
  { name: "undo", keys: ["z", "Backspace"], label: gettext("undo the last decision, also a skip"), run: () => undo() },
  { name: "note", keys: ["n"], label: gettext("write a note; Esc leaves it"), run: () => $("notes").focus() },
  { name: "tags", keys: ["t"], label: gettext("go to the tags; Esc leaves them"), run: () => firstTag()?.focus() },
  { name: "help", keys: ["?"], label: gettext("this list"), run: () => keys.openHelp() },
];
const allCommands = () => [...rubricCommands, ...usual];
const firstTag = () => $("tags").querySelector("input");
const hasSend = () => rubricCommands.some(({ name }) => name === "send");
const run = (name) => allCommands().find((command) => command.name === name).run({});

/** From the note: what is chosen or edited goes; where one key is the decision, that key is next. */
function sendFrom(field) {
  if ("field" in field.dataset) return run("good");
  if (hasSend()) return run("send");
  focusOn(article);
  return say(compose(gettext("Now %(choices)s: the note goes with it."), { choices: rubricCommands.map(({ label }) => label).join(", ") }));
}

const keys = useKeys({ dialog: $("keys"), commands: allCommands(), onSend: sendFrom });

page.addEventListener("click", ({ target }) => {
  const name = target.closest("button[data-command]")?.dataset.command;
  if (name) run(name);
});
page.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target !== form) undo(Number(event.target.elements.claim.value));
  else if (!event.submitter?.dataset.command && hasSend()) run("send");
});
$("filters")?.addEventListener("submit", (event) => event.stopPropagation());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && form.contains(event.target)) focusOn(article);
  if (event.key !== "Enter" || event.isComposing) return;
  if (event.target.type === "radio") run("send");
  if (event.target.matches("input[data-field]")) run("good");
});

// Somebody who chooses with the mouse goes on with the keys at once; with the keyboard the focus stays where it is.
let byPointer = false;
form.addEventListener("pointerdown", () => { byPointer = true; });
form.addEventListener("keydown", () => { byPointer = false; });
form.addEventListener("change", ({ target }) => {
  if (byPointer && target.matches("[type=checkbox], [type=radio]")) focusOn(article);
});

fields?.box.addEventListener("input", nameGood);
$("whole").addEventListener("click", toggleWhole);
const noteActivity = () => { isActive = true; };
for (const name of ["pointermove", "keydown", "scroll"]) addEventListener(name, noteActivity, { passive: true });
setInterval(() => {
  if (isActive && !document.hidden) outbox.send();
  isActive = false;
}, RENEWAL);

for (const id of ["keys-line", "undo-line"]) $(id).hidden = false;
past = outbox.remembered;
take({ items: read("items"), progress: read("counted"), decisions: stored, results: [], values: read("known-values") });
outbox.send();
