/* How many votes wait for the next training, the button that starts it now, and its curve while it goes on. */

import { post } from "./ask.js";
import { lookAgain } from "./live.js";
import { showOwnQuestions } from "./own_questions.js";
import { explain } from "./turns.js";
import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);
const ENDS = { succeeded: gettext("The training has ended."), cancelled: gettext("The training was cancelled.") };
const part = $("training");

/** `tastes` and `run`, which may have started by itself, come with news from the server only. */
export function showVotes({ waiting, needed, tastes, run }) {
  $("votes").max = Math.max(1, needed);
  $("votes").value = Math.min(waiting, needed);
  $("votes-text").textContent = waiting < needed
    ? compose(gettext("%(waiting)s of %(needed)s votes to the next training"), { waiting, needed })
    : compose(gettext("%(waiting)s votes wait: enough for a training (%(needed)s)"), { waiting, needed });
  if (tastes) $("tastes").replaceChildren(...tastes.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
  if (run) showRun(run);
}

async function showRun(number) {
  const template = $("run-template");
  if (!template || $("run")) return;
  if ($("train")) $("train").disabled = true;
  const card = template.content.cloneNode(true).firstElementChild;
  card.dataset.progress = template.dataset.progress.replace("/0/", `/${number}/`);
  const cancelling = card.querySelector("#run-cancel");
  cancelling?.addEventListener("click", () => cancel(cancelling, number));
  part.append(card);
  card.addEventListener("ended", ({ detail }) => {
    $("run-ended").hidden = false;
    cancelling?.remove();
    if ($("train")) $("train").disabled = false;
    $("run-ended-text").textContent = ENDS[detail.state] ?? `${gettext("The training failed.")} ${detail.error}`;
    if (detail.state === "succeeded") showOwnQuestions(showVotes);
  });
  await import("./run.js");
}

async function cancel(button, number) {
  button.disabled = true;
  try {
    await post(button.dataset.run.replace("/0/", `/${number}/`), part.dataset.token, [["action", "cancel"]]);
    $("training-status").textContent = compose(gettext("Training %(number)s stops after its current step."), { number });
  } catch (error) {
    button.disabled = false;
    $("training-status").textContent = explain(error);
  }
}

async function train() {
  $("train").disabled = true;
  try {
    const { run } = await post(part.dataset.train, part.dataset.token, []);
    $("training-status").textContent = compose(gettext("Training %(run)s is queued."), { run });
    await showRun(run);
  } catch (error) {
    $("train").disabled = false;
    $("training-status").textContent = explain(error);
  }
}

export function begin(token) {
  part.dataset.token = token;
  showVotes({ waiting: Number(part.dataset.waiting), needed: Number(part.dataset.needed) });
  $("train")?.addEventListener("click", train);
  $("own-open").addEventListener("click", () => showOwnQuestions(showVotes));
  if (part.dataset.run) showRun(part.dataset.run);
  if ($("run-template")) lookAgain($("training-news"), noticeRun);
}

/** One that has started by itself, in the page as it is now. */
function noticeRun(found) {
  const { waiting, needed, run } = found.getElementById("training").dataset;
  showVotes({ waiting: Number(waiting), needed: Number(needed), run });
}
