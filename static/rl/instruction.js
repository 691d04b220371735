/* What the answers should be like, in a sentence: past questions are answered with it and without, and a click puts it into
   use or takes it back. */

import { post } from "./ask.js";
import { compareWords, showMarked } from "./diff.js";
import { askFor, explain, showAnswer } from "./turns.js";
import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);
const part = $("instruction");
const NOTICED = 1000; // milliseconds in which the gateway has read what is in use
let token = "", tried = "", round = 0;

function send(action, fields) {
  return post(part.dataset.change, token, [["action", action], ...fields]);
}

async function attempt(button, work) {
  button.disabled = true;
  $("instruction-status").textContent = "";
  try {
    await work();
  } catch (error) {
    $("instruction-status").textContent = explain(error);
  }
  button.disabled = false;
}

/** What the page says of the version in use. */
function show({ told, taken_back: takenBack }) {
  $("told").hidden = !told;
  $("told-text").textContent = told;
  $("instruction-back").hidden = !takenBack;
  part.dataset.takenBack = takenBack;
}

function addRow({ question, before }, names) {
  const row = $("own-template").content.cloneNode(true).firstElementChild;
  row.querySelector("h3").textContent = question;
  row.querySelector(".before-name").textContent = names.before;
  row.querySelector(".after-name").textContent = names.version;
  row.querySelector(".before-text").textContent = before ?? "";
  $("tried").append(row);
  return row;
}

async function fill(row, side, question, version) {
  const body = { messages: [{ role: "user", content: question }], conversation: "instruction" };
  const response = await askFor(part.dataset.answer.replace("VERSION", encodeURIComponent(version)), token, body);
  await showAnswer(response, row.querySelector(`.${side}-text`));
}

function mark(row) {
  const before = row.querySelector(".before-text"), after = row.querySelector(".after-text");
  const [left, right] = compareWords(before.textContent, after.textContent);
  showMarked(before, left, "del");
  showMarked(after, right, "ins");
}

async function tryIt() {
  const own = ++round;
  const news = await send("try", [["text", $("wish").value], ["place", $("wish-place").value]]);
  tried = news.version;
  $("tried").replaceChildren();
  $("wish-use").hidden = $("wish-leave").hidden = false;
  const rows = news.questions.map((entry) => [addRow(entry, news), entry]);
  for (const [number, [row, { question, before }]] of rows.entries()) {
    $("instruction-status").textContent = compose(gettext("Question %(number)s of %(all)s is answered…"), { number: number + 1, all: rows.length });
    if (before === null) await fill(row, "before", question, news.before);
    await fill(row, "after", question, news.version);
    if (own !== round) return;
    mark(row);
  }
  $("instruction-status").textContent = rows.length
    ? compose(ngettext("One past question, answered without it and with it. Is it better?", "%(count)s past questions, answered without it and with it. Is it better?", rows.length), { count: rows.length })
    : gettext("Nobody has asked anything yet: use it, and ask.");
}

function close() {
  round++;
  tried = "";
  $("tried").replaceChildren();
  $("wish-use").hidden = $("wish-leave").hidden = true;
}

async function decide(action, version, text) {
  const news = await send(action, [["version", version]]);
  if (action !== "leave") await new Promise((done) => { setTimeout(done, NOTICED); });
  show(news);
  close();
  $("instruction-status").textContent = text;
}

export function begin(ownToken) {
  if (!part) return;
  token = ownToken;
  $("wish-form").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt($("wish-try"), tryIt);
  });
  for (const note of part.querySelectorAll(".note")) {
    note.addEventListener("click", () => { $("wish").value = note.textContent; $("wish").focus(); });
  }
  const used = gettext("It is in use: the next answer is given with it.");
  $("wish-use").addEventListener("click", () => attempt($("wish-use"), () => decide("use", tried, used)));
  $("wish-leave").addEventListener("click", () => attempt($("wish-leave"), () => decide("leave", tried, gettext("Nothing was changed."))));
  const back = $("instruction-back");
  back.addEventListener("click", () => attempt(back, () => decide("back", part.dataset.takenBack, gettext("It was taken back."))));
}
