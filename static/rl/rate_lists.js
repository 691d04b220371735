/* What stands around the item: the values of its answers, progress, the last decisions, what is not sent yet, whose answers a pair was. */

import { addressOf } from "./items.js";
import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);
const SHOWN = 10;
const PATIENCE = 400; // milliseconds; what is sent by then is not worth a word

export function say(text, isProblem = false) {
  $("status").textContent = text;
  $("status").classList.toggle("problem", isProblem);
}

export function showProgress({ done, total, text }) {
  $("progress").max = total;
  $("progress").value = done;
  $("progress-text").textContent = text;
}

/** lines: [{ claim, label, question }], newest first. */
export function showDecisions(lines) {
  $("decisions").hidden = !lines.length;
  $("decision-list").replaceChildren(...lines.slice(0, SHOWN).map(decisionLine));
}

function decisionLine({ claim, label, question }) {
  const line = $("decision-template").content.cloneNode(true), badge = line.querySelector(".badge");
  badge.classList.toggle("good", label === gettext("Good"));
  badge.classList.toggle("bad", [gettext("Bad"), gettext("Both bad")].includes(label));
  badge.textContent = label;
  line.querySelector(".decision-question").textContent = question;
  line.querySelector("[name=claim]").value = claim;
  const happened = line.querySelector(".decision-happened"); // for those who may see traces
  if (happened) happened.href = addressOf(claim);
  return line;
}

/** The answers of a set as buttons, which the keyboard knows by their number; `answer`: what the item says. */
export function showValues(values, answer) {
  const box = $("values");
  box.hidden = !values.length;
  box.replaceChildren(...values.map((value, at) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: value, className: value === answer ? "own" : "", dir: "auto" });
    button.dataset.command = `value-${at + 1}`;
    return button;
  }));
}

let timer;

export function showWaiting(number) {
  const write = () => { $("waiting").textContent = number ? compose(gettext("%(number)s to send"), { number }) : ""; };
  clearTimeout(timer);
  if (!number || $("waiting").textContent) write();
  else timer = setTimeout(write, PATIENCE);
}

export function showNames({ left, right }) {
  $("revealed").textContent = left === right
    ? compose(gettext("In the last pair both are the same model, asked twice: %(left)s."), { left })
    : compose(gettext("In the last pair A was %(left)s, B was %(right)s."), { left, right });
}
