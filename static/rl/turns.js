/* What every answer on the page under /try/ has in common: it grows while one reads along, says why it is not whole, and is
   shown as Markdown once it is. */

import { pieces } from "./answer_stream.js";
import { post, reasonOf } from "./ask.js";
import { compose } from "./words.js";

const sources = new WeakMap(); // element to what the model wrote
const AGAIN = 5000, TRIES = 3; // milliseconds until a server that was too busy to format is asked again
const NEAR = 120; // pixels above the end of the page at which one still reads along

/** Asks, and gives the response whose body is the answer. Throws an error whose message is for people. */
export async function askFor(address, token, question, signal) {
  const response = await fetch(address, {
    method: "POST", redirect: "manual", signal, body: JSON.stringify(question),
    headers: { "Content-Type": "application/json", "X-CSRFToken": token },
  });
  if (!response.ok) throw new Error(await reasonOf(response));
  return response;
}

export async function showAnswer(response, element) {
  for await (const { text, isCut } of pieces(response)) {
    if (text) readAlong(() => element.append(text));
    if (isCut) element.dataset.cut = "";
  }
}

/** Shows an answer that has ended as Markdown, made and sanitised by the server. Where that fails its text stays. */
export async function formatAnswer(element, address, token, tries = TRIES) {
  const text = element.textContent;
  if (!text) return;
  try {
    const { html } = await post(address, token, [["text", text]]);
    if (!html && tries > 1) setTimeout(() => formatAnswer(element, address, token, tries - 1), AGAIN);
    if (!html) return;
    sources.set(element, text);
    readAlong(() => { element.innerHTML = html; });
    element.classList.replace("text", "markdown");
  } catch {
    // it is there to read
  }
}

/** The words of an answer, however it is shown. */
export function textOf(element) {
  return sources.get(element) ?? element.textContent;
}

/** Lets the page grow, and stays at its end where one was there. */
export function readAlong(grow) {
  const isAtEnd = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - NEAR;
  grow();
  if (isAtEnd) window.scrollTo(0, document.documentElement.scrollHeight);
}

export function explain(error) {
  return error instanceof TypeError ? gettext("The site cannot be reached. Is it still running?") : error.message;
}

/** Says in `line` why an answer is not whole; nothing where it is. `error`: what broke it off. */
export function showEnding(line, answer, error, wasStopped) {
  const isCut = !error && "cut" in answer.dataset;
  line.textContent = isCut ? gettext("Cut off here: it has reached the longest length of an answer.") : problemOf(answer.textContent, error, wasStopped);
  line.classList.toggle("problem", !wasStopped && !isCut);
}

function problemOf(text, error, wasStopped) {
  if (wasStopped) return gettext("Stopped.");
  if (error) return compose(text ? gettext("The answer broke off: %(reason)s") : gettext("No answer: %(reason)s"), { reason: explain(error) });
  return text ? "" : gettext("The model said nothing.");
}
