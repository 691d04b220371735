/* What the answers should be like, in a sentence: past questions are answered with it and without, and a click puts it into
   use or takes it back. */

import { post } from "./ask.js";
import { compareWords, showMarked } from "./diff.js";
import { askFor, explain, showAnswer } from "./turns.js";
import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);
const part = $("instruction");
const NOTICED = 1000; // milliseconds in which the gateway has read what is in use
const FEWEST = 4; // questions: of fewer no share is surely above one half
const PATIENCE = 40, AGAIN = 1500; // how often a judge that starts is asked again, after how many milliseconds
let token = "", tried = "", round = 0, trying = new AbortController();

function send(action, fields, signal) {
  return post(part.dataset.change, token, [["action", action], ...fields], signal);
}

async function attempt(button, work) {
  button.disabled = true;
  $("instruction-status").textContent = "";
  try {
    await work();
  } catch (error) {
    $("instruction-status").textContent = trying.signal.aborted ? gettext("Stopped.") : explain(error);
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
  const response = await askFor(part.dataset.answer.replace("VERSION", encodeURIComponent(version)), token, body, trying.signal);
  await showAnswer(response, row.querySelector(`.${side}-text`));
}

function mark(row) {
  const before = row.querySelector(".before-text"), after = row.querySelector(".after-text");
  const [left, right] = compareWords(before.textContent, after.textContent);
  showMarked(before, left, "del");
  showMarked(after, right, "ins");
}

/** Where past questions say that it is heeded, in words and by its name. */
async function findPlace() {
  $("instruction-status").textContent = gettext("Past questions are answered in both places, to find the one where it is heeded; that takes up to a minute…");
  const { place, heeded, of, sure } = await send("place", [["text", $("wish").value]], trying.signal);
  if (of < FEWEST) return { place, words: gettext("It stands behind the question, where small models heed it: too few past questions were answered in both places to tell.") };
  const counts = compose(gettext("Told behind the question, %(question)s of %(of)s answers show it; told in the system prompt, %(system)s. By chance it would be half."), { ...heeded, of });
  const names = { question: gettext("It stands behind the question."), system: gettext("It stands in the system prompt.") };
  return { place, words: `${counts} ${names[place]}${sure ? "" : ` ${gettext("Whether it is heeded at all is not sure: read the answers.")}`}` };
}

/** How often the agent's judge prefers the answers with it; one that starts is waited for. */
async function forecast(rows, own) {
  let wins = 0, same = 0;
  for (const [row, { question }] of rows) {
    const fields = [["question", question], ["before", row.querySelector(".before-text").textContent], ["after", row.querySelector(".after-text").textContent]];
    let news = await send("judge", fields);
    for (let left = PATIENCE; news.waits && left && own === round; left--) {
      await new Promise((done) => { setTimeout(done, AGAIN); });
      news = await send("judge", fields);
    }
    if (own !== round) return "";
    if (news.problem) return compose(gettext("No judge says which answers people would prefer: %(reason)s."), { reason: news.problem });
    wins += news.prefers === true;
    same += news.prefers === null;
  }
  const text = compose(gettext("The judge, which has learned from the ratings, prefers the new answer in %(wins)s of %(all)s."), { wins, all: rows.length });
  return same ? `${text} ${compose(ngettext("%(same)s is the same.", "%(same)s are the same.", same), { same })}` : text;
}

async function tryIt() {
  close();
  const own = round;
  trying = new AbortController();
  $("wish-stop").hidden = false;
  const chosen = $("wish-place").value;
  const { place, words } = chosen ? { place: chosen, words: "" } : await findPlace();
  if (own !== round) return;
  $("instruction-place").textContent = words;
  const news = await send("try", [["text", $("wish").value], ["place", place]]);
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
  if (rows.length) {
    $("instruction-status").textContent = gettext("The judge reads the answers…");
    $("instruction-forecast").textContent = await forecast(rows, own);
    if (own !== round) return;
  }
  $("instruction-status").textContent = rows.length
    ? compose(ngettext("One past question, answered without it and with it. Is it better?", "%(count)s past questions, answered without it and with it. Is it better?", rows.length), { count: rows.length })
    : gettext("Nobody has asked anything yet: use it, and ask.");
}

function close() {
  round++;
  tried = "";
  $("tried").replaceChildren();
  $("instruction-place").textContent = $("instruction-forecast").textContent = "";
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
  if (location.hash === "#instruction") part.querySelector("details").open = true;
  $("wish-form").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt($("wish-try"), tryIt).finally(() => { $("wish-stop").hidden = true; });
  });
  for (const note of part.querySelectorAll(".note")) {
    note.addEventListener("click", () => { $("wish").value = note.dataset.text; $("wish").focus(); });
  }
  $("wish-stop").addEventListener("click", () => { round++; trying.abort(); });
  const used = gettext("It is in use: the next answer is given with it.");
  $("wish-use").addEventListener("click", () => attempt($("wish-use"), () => decide("use", tried, used)));
  $("wish-leave").addEventListener("click", () => attempt($("wish-leave"), () => decide("leave", tried, gettext("Nothing was changed."))));
  const back = $("instruction-back");
  back.addEventListener("click", () => attempt(back, () => decide("back", part.dataset.takenBack, gettext("It was taken back."))));
}
