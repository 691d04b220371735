/* A conversation with an agent: two answers to compare, or one with thumbs. The earlier questions and answers are sent with
   each question; a failed one is taken back into the box. Texts of people and models are written as text, never as markup. */

import { Duel } from "./duel.js";
import { useKeys } from "./keys.js";
import { OneAnswer } from "./one_answer.js";
import { begin as beginInstruction } from "./instruction.js";
import { begin as beginTraining, showVotes } from "./training.js";
import { askFor, formatAnswer, showAnswer, showEnding } from "./turns.js";

const $ = (id) => document.getElementById(id);
const page = $("try"), form = $("form"), box = $("question"), log = $("turns");
const token = form.elements.csrfmiddlewaretoken.value;
const GO_ON = "Please go on where you stopped.";
const MODE = "ratchet-try-answers", GOES_ON = "ratchet-try-goes-on", HAS_VOTED = "ratchet-has-voted";

let history = []; // {question, answer} or a Duel
let conversation = newName(), running = null, duel = null;

function newName() {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((number) => number.toString(16)).join("-");
}

function say(text) {
  $("status").textContent = text;
}

// --- one question and its answer --------------------------------------------------------------------------------------

function addTurn(question) {
  const turn = $("turn-template").content.cloneNode(true).firstElementChild;
  turn.querySelector(".question").textContent = question;
  turn.setAttribute("aria-busy", "true");
  log.append(turn);
  return turn;
}

async function ask(question, turn, signal) {
  const response = await askFor(page.dataset.answer, token, { messages: messagesWith(question), conversation }, signal);
  turn.dataset.trace = response.headers.get("x-ratchet-trace");
  if ("showsVersion" in page.dataset) turn.querySelector(".version").textContent = response.headers.get("x-ratchet-version");
  await showAnswer(response, turn.querySelector(".answer"));
}

function messagesWith(question) {
  const turns = history.filter(({ answer }) => answer);
  const before = turns.flatMap((turn) => [{ role: "user", content: turn.question }, { role: "assistant", content: turn.answer }]);
  return [...before, { role: "user", content: question }];
}

/** What is left of a question when its answer has ended, however it ended. */
function settle(turn, question, error, wasStopped) {
  const { form: address, rating, asks, format } = page.dataset;
  const shown = turn.querySelector(".answer"), answer = shown.textContent, line = turn.querySelector(".ending");
  turn.setAttribute("aria-busy", "false");
  if (answer) new OneAnswer(turn, { form: address, rating, asks, token, counted: showVotes }).offer();
  showEnding(line, shown, error, wasStopped);
  if (answer && !asks) {
    formatAnswer(shown, format, token);
    if ("cut" in shown.dataset) offerMore(line);
  }
  if (answer) {
    history.push({ question, answer });
    $("unserved")?.remove();
  } else if (!box.value) box.value = question;
}

/** Beside an answer that was cut off, as long as nothing else is asked. */
function offerMore(line) {
  const more = Object.assign(document.createElement("button"), { type: "button", className: "plain more", textContent: gettext("Let it go on") });
  more.addEventListener("click", () => start(GO_ON, sendToOne));
  line.append(" ", more);
}

async function send() {
  const question = box.value.trim();
  if (running || !question) return;
  box.value = "";
  await start(question, $("two").checked ? sendToBoth : sendToOne);
}

async function start(question, sendTo) {
  if (running) return;
  running = new AbortController();
  $("examples").hidden = true;
  for (const more of log.querySelectorAll(".more")) more.remove();
  await sendTo(question, running);
}

async function sendToOne(question, own) {
  if (page.dataset.asks) startAnew(); // what is to be told of a message depends on no other
  const turn = addTurn(question);
  setBusy(true);
  window.scrollTo(0, document.documentElement.scrollHeight);
  let problem = null;
  try {
    await ask(question, turn, own.signal);
  } catch (error) {
    problem = error;
  }
  if (running !== own) return; // a new conversation has begun
  settle(turn, question, problem, own.signal.aborted);
  setBusy(false);
  say(problem ? "" : gettext("The answer is complete."));
}

// --- two answers --------------------------------------------------------------------------------------------------------

async function sendToBoth(question, own) {
  duel?.decide("skip");
  if (!$("goes-on").checked) startAnew();
  duel = new Duel(question, {
    draw: page.dataset.draw, vote: page.dataset.vote, format: page.dataset.asks ? "" : page.dataset.format, token,
    changed: showState, counted,
  });
  const { signal } = own, messages = messagesWith(question), asked = duel;
  history.push(duel);
  log.append(duel.element);
  keyboard.use(commands); // shows the keys on its buttons
  setBusy(true);
  showState();
  duel.element.focus({ preventScroll: true });
  window.scrollTo(0, document.documentElement.scrollHeight);
  await asked.ask(messages, conversation, signal);
  if (running !== own) return;
  setBusy(false);
  if (asked.answer) $("unserved")?.remove();
  else if (!box.value) box.value = question;
  say(asked.isOpen ? gettext("Both answers are complete. Which is better?") : "");
}

function showState() {
  if (!running) say("");
  page.classList.toggle("voting", Boolean(duel?.isOpen));
}

function counted(votes) {
  showVotes(votes);
  if (votes.sides.length) keep(HAS_VOTED, "1");
  showHint();
}

function showHint() {
  $("hint").hidden = !$("two").checked || load(HAS_VOTED) === "1";
  $("going-on").hidden = !$("two").checked; // one answer goes on as any chat
}

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

function setBusy(on) {
  if (!on) running = null;
  log.setAttribute("aria-busy", String(on));
  $("send").hidden = on;
  $("stop").hidden = !on;
  if (!duel && (!document.activeElement || document.activeElement === document.body)) box.focus();
  say(on ? gettext("Answering…") : "");
}

/** The next question is asked without the earlier ones. */
function startAnew() {
  history = [];
  conversation = newName();
}

function begin() {
  const left = running;
  setBusy(false);
  left?.abort();
  startAnew();
  duel = null;
  showState();
  log.replaceChildren();
  $("examples").hidden = false;
  box.value = "";
  box.focus();
  say(gettext("A new conversation."));
}

// --- the keyboard ------------------------------------------------------------------------------------------------------

form.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
});
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", begin);

/** As on the rating page, where E is a tie. */
function tieOrEdit() {
  if (!duel) return false;
  return duel.isOpen ? duel.decide("tie") : duel.openEditor();
}

const commands = [
  { name: "left", keys: ["ArrowLeft", "a"], label: gettext("A is better"), run: () => duel?.decide("a") ?? false },
  { name: "right", keys: ["ArrowRight", "b"], label: gettext("B is better"), run: () => duel?.decide("b") ?? false },
  { name: "tie", keys: ["ArrowDown"], label: gettext("Tie"), run: () => duel?.decide("tie") ?? false },
  { name: "both_bad", keys: ["x"], label: gettext("Both bad"), run: () => duel?.decide("both_bad") ?? false },
  { name: "skip", keys: ["s"], label: gettext("Skip"), run: () => duel?.decide("skip") ?? false },
  { name: "edit", keys: ["e"], label: gettext("Tie; after the vote: edit the better one"), run: tieOrEdit },
  { name: "undo", keys: ["z"], label: gettext("Take the last vote back"), run: () => { duel?.undo(); } },
  { name: "ask", keys: ["/"], label: gettext("Write the next question"), run: () => box.focus() },
  { name: "help", keys: ["?"], label: gettext("This help"), run: () => keyboard.openHelp() },
];
const keyboard = useKeys({
  dialog: $("keys-dialog"), commands, onSend: (field) => (field === box ? send() : duel?.saveEdit()),
});

// --- the switch and the examples --------------------------------------------------------------------------------------

if (!page.dataset.asks) $("two").checked = load(MODE) !== "one"; // two answers of a set tell less than the right one
$("goes-on").checked = load(GOES_ON) === "1";
$("two").addEventListener("change", () => {
  if (!page.dataset.asks) keep(MODE, $("two").checked ? "two" : "one");
  showHint();
});
$("goes-on").addEventListener("change", () => keep(GOES_ON, $("goes-on").checked ? "1" : ""));
$("keys-open").addEventListener("click", () => keyboard.openHelp());
showHint();
$("examples").addEventListener("click", (event) => {
  const chip = event.target.closest("button");
  if (!chip) return;
  box.value = chip.textContent;
  send();
});
beginTraining(token);
beginInstruction(token);
