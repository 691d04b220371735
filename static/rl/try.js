/* A conversation with an agent. The earlier questions and answers are sent with each question; a failed one is taken back
   into the box. Texts of people and models are written as text, never as markup. */

import { post, reasonOf } from "./ask.js";
import { pieces } from "./answer_stream.js";

const $ = (id) => document.getElementById(id);
const page = $("try"), form = $("form"), box = $("question"), log = $("turns");
const token = form.elements.csrfmiddlewaretoken.value;
const NEAR = 120; // pixels above the end of the page at which one still reads along

let history = [], conversation = newName(), running = null;

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
  turn.querySelector(".thumbs").addEventListener("click", (event) => rate(turn, event.target.closest("button")));
  return turn;
}

async function ask(question, turn, signal) {
  const messages = [...history, { role: "user", content: question }];
  const response = await fetch(page.dataset.answer, {
    method: "POST", redirect: "manual", signal, body: JSON.stringify({ messages, conversation }),
    headers: { "Content-Type": "application/json", "X-CSRFToken": token },
  });
  if (!response.ok) throw new Error(await reasonOf(response));
  turn.dataset.trace = response.headers.get("x-ratchet-trace");
  if ("showsVersion" in page.dataset) turn.querySelector(".version").textContent = response.headers.get("x-ratchet-version");
  for await (const piece of pieces(response)) show(turn, piece);
}

function show(turn, piece) {
  const readsAlong = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - NEAR;
  turn.querySelector(".answer").append(piece);
  if (readsAlong) window.scrollTo(0, document.documentElement.scrollHeight);
}

function explain(error) {
  return error instanceof TypeError ? "The site cannot be reached. Is it still running?" : error.message;
}

/** Why an answer is not whole; empty where it is. `error`: what broke it off. */
function problemOf(answer, error, wasStopped) {
  if (wasStopped) return "Stopped.";
  if (error) return `${answer ? "The answer broke off" : "No answer"}: ${explain(error)}`;
  return answer ? "" : "The model said nothing.";
}

/** What is left of a question when its answer has ended, however it ended. */
function settle(turn, question, error, wasStopped) {
  const answer = turn.querySelector(".answer").textContent, line = turn.querySelector(".ending");
  turn.setAttribute("aria-busy", "false");
  turn.querySelector(".thumbs").hidden = !answer;
  line.textContent = problemOf(answer, error, wasStopped);
  line.classList.toggle("problem", !wasStopped);
  if (answer) {
    history.push({ role: "user", content: question }, { role: "assistant", content: answer });
    $("unserved")?.remove();
  } else if (!box.value) box.value = question;
}

async function send() {
  const question = box.value.trim(), own = new AbortController();
  if (running || !question) return;
  running = own;
  box.value = "";
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
  say(problem ? "" : "The answer is complete.");
}

function setBusy(on) {
  if (!on) running = null;
  log.setAttribute("aria-busy", String(on));
  $("send").hidden = on;
  $("stop").hidden = !on;
  if (!document.activeElement || document.activeElement === document.body) box.focus();
  say(on ? "Answering…" : "");
}

function begin() {
  const left = running;
  setBusy(false);
  left?.abort();
  history = [];
  conversation = newName();
  log.replaceChildren();
  box.value = "";
  box.focus();
  say("A new conversation.");
}

// --- thumbs ------------------------------------------------------------------------------------------------------------

async function rate(turn, button) {
  if (!button || turn.dataset.rating) return;
  turn.dataset.rating = "on its way";
  const saved = turn.querySelector(".saved");
  const wish = button.ariaPressed === "true" ? [["action", "retract"]] : [["value", button.value]];
  try {
    const { value } = await post(page.dataset.rating, token, [["trace", turn.dataset.trace], ...wish]);
    for (const thumb of turn.querySelectorAll(".thumb")) thumb.ariaPressed = String(value !== null && Number(thumb.value) === value);
    saved.textContent = value === null ? "Taken back." : "Thank you, saved.";
  } catch (error) {
    saved.textContent = `Not saved: ${explain(error)}`;
  } finally {
    delete turn.dataset.rating;
  }
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
