/* One's own questions, before and after a training: what is not answered yet is asked as any question, one after the other. */

import { ask as askJson } from "./ask.js";
import { compareWords, showMarked } from "./diff.js";
import { askFor, explain, showAnswer } from "./turns.js";
import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);
const page = $("try"), section = $("own"), token = $("form").elements.csrfmiddlewaretoken.value;

function addRow({ question, before, before_name: name, after }, live) {
  const row = $("own-template").content.cloneNode(true).firstElementChild;
  row.querySelector("h3").textContent = question;
  row.querySelector(".before-name").textContent = name;
  row.querySelector(".after-name").textContent = live;
  row.querySelector(".before-text").textContent = before;
  row.querySelector(".after-text").textContent = after ?? "";
  $("own-list").append(row);
  return row;
}

function compare(row) {
  const before = row.querySelector(".before-text"), after = row.querySelector(".after-text");
  const [left, right] = compareWords(before.textContent, after.textContent);
  showMarked(before, left, "del");
  showMarked(after, right, "ins");
}

async function answer(row, question) {
  const body = { messages: [{ role: "user", content: question }], conversation: "own-questions" };
  const response = await askFor(page.dataset.answer, token, body);
  const name = "showsVersion" in page.dataset && response.headers.get("x-ratchet-version");
  if (name) row.querySelector(".after-name").textContent = name;
  await showAnswer(response, row.querySelector(".after-text"));
}

/** Shows them, and asks what is missing. Safe to call again. `counted` gets how many votes wait for the next training. */
export async function showOwnQuestions(counted) {
  section.hidden = false;
  $("own-list").replaceChildren();
  try {
    const news = await askJson(page.dataset.own), { verdict, live, questions } = news;
    counted(news);
    $("own-verdict").textContent = verdict.text && verdict.version !== live ? `${verdict.text} ${compose(gettext("%(version)s stays in use."), { version: live })}` : verdict.text;
    $("own-none").hidden = questions.length > 0;
    const rows = questions.map((entry) => [addRow(entry, live), entry]);
    for (const [row, { question, after }] of rows) {
      if (after === null) await answer(row, question);
      compare(row);
    }
    $("own-status").textContent = "";
  } catch (error) {
    $("own-status").textContent = explain(error);
  }
}
