/* Beside the form of a new run: what the run would do, asked again whenever something else is chosen. */

import { compose } from "./words.js";

const form = document.getElementById("new-run"), card = document.getElementById("plan-card");
const plan = document.getElementById("plan"), status = document.getElementById("plan-status");
const WAIT = 150;
let timer = null, asked = null;

function element(tag, text = "", ...children) {
  const made = Object.assign(document.createElement(tag), { textContent: text });
  made.append(...children);
  return made;
}

function figure(value, word) {
  const made = element("div", "", element("b", value));
  made.append(word);
  return made;
}

function table({ title, rows }) {
  const body = element("tbody", "", ...rows.map(([name, value]) => {
    const head = element("th", name);
    head.scope = "row";
    return element("tr", "", head, element("td", value));
  }));
  const whole = element("table", "", body);
  whole.className = "values";
  return [element("h3", title), whole];
}

function show(found) {
  const figures = element("div", "", figure(found.rows.toLocaleString(document.documentElement.lang), gettext("rows to learn from")));
  figures.className = "plan-figures";
  if (found.minutes !== null) figures.append(figure(found.minutes.toLocaleString(document.documentElement.lang), gettext("minutes, about")), figure(found.memory_gib.toLocaleString(document.documentElement.lang), gettext("GiB of memory, about")));
  const rows = element("a", gettext("What it would learn, row by row"));
  rows.href = found.shown;
  plan.replaceChildren(figures, element("p", "", rows), ...found.tables.flatMap(table));
  status.replaceChildren();
  if (!found.active) return;
  const link = element("a", gettext("A run of this agent is at work already"));
  link.href = found.active;
  status.append(link, gettext("; another one starts when it is over."));
}

async function ask() {
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  card.ariaBusy = "true";
  status.textContent = gettext("Reading the ratings…");
  try {
    const wanted = new URLSearchParams(new FormData(form));
    wanted.delete("csrfmiddlewaretoken");
    const response = await fetch(`${form.dataset.plan}?${wanted}`, { signal, redirect: "manual" });
    if (!response.ok && response.status !== 400) throw new Error(response.status ? compose(gettext("the server answered %(status)s"), response) : gettext("you are signed out"));
    const found = await response.json();
    if (found.error) plan.replaceChildren();
    if (found.error) status.textContent = compose(gettext("It could not start: %(reason)s."), { reason: found.error });
    else show(found);
  } catch (error) {
    if (signal.aborted) return;
    plan.replaceChildren();
    status.textContent = compose(gettext("Not known: %(reason)s."), { reason: error.message });
  }
  card.ariaBusy = "false";
}

form?.addEventListener("change", () => {
  clearTimeout(timer);
  timer = setTimeout(ask, WAIT);
});
if (form) ask();
