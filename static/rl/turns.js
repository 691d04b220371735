/* What every answer on the page under /try/ has in common: it grows while one reads along, and says why it is not whole. */

import { pieces } from "./answer_stream.js";
import { reasonOf } from "./ask.js";

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
  for await (const piece of pieces(response)) readAlong(() => element.append(piece));
}

/** Lets the page grow, and stays at its end where one was there. */
export function readAlong(grow) {
  const isAtEnd = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - NEAR;
  grow();
  if (isAtEnd) window.scrollTo(0, document.documentElement.scrollHeight);
}

export function explain(error) {
  return error instanceof TypeError ? "The site cannot be reached. Is it still running?" : error.message;
}

/** Why an answer is not whole; empty where it is. `error`: what broke it off. */
export function problemOf(answer, error, wasStopped) {
  if (wasStopped) return "Stopped.";
  if (error) return `${answer ? "The answer broke off" : "No answer"}: ${explain(error)}`;
  return answer ? "" : "The model said nothing.";
}
