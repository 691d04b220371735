/* Draws an item of a queue: what came before, the question, one answer or two, its tags. `html` of an item is made and
   sanitised by the server; everything else is written as text. */

import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);

/** The tags that every site has; a queue's own are as their owner wrote them. */
const TAGS = {
  wrong: gettext("wrong"), incomplete: gettext("incomplete"), "off topic": gettext("off topic"),
  unclear: gettext("unclear"), "too long": gettext("too long"), unsafe: gettext("unsafe"),
};

function part(name, text, className = "") {
  return Object.assign(document.createElement(name), { textContent: text, className });
}

function formatted(html) {
  const box = part("div", "", "markdown");
  box.dir = "auto";
  box.innerHTML = html;
  return box;
}

/** Where it is shown what the agent did for an item. */
export const addressOf = (claim) => $("happened").dataset.address.replace("/0/", `/${claim}/`);

export function drawItem(item) {
  $("question").replaceChildren(formatted(item.question_html));
  $("before").hidden = !item.before.length;
  $("before").open = false;
  $("before-list").replaceChildren(...left(item.earlier), ...item.before.map(message));
  const happened = $("happened"); // for those who may see traces
  if (happened) happened.href = addressOf(item.claim);
  $("answers").replaceChildren(...item.answers.map((answer, number) => side(answer, number, item.answers.length)));
  $("answers").classList.toggle("pair", item.answers.length > 1);
  $("tags").replaceChildren($("tags").querySelector("legend"), ...item.tags.map(tag));
  cut();
}

const left = (count) => (count ? [part("p", compose(gettext("Messages before these, which are not shown: %(count)s."), { count }), "soft")] : []);

function message({ role, html }) {
  const line = part("div", "", "message");
  line.append(part("b", role), formatted(html));
  return line;
}

function side(answer, number, sides) {
  const name = sides > 1 ? compose(gettext("Answer %(side)s"), { side: "AB"[number] }) : gettext("Answer");
  const made = part("section", "", "side"), box = part("div", "", "answer");
  box.dataset.scrolls = "";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", name);
  box.append(answer.drawing ? drawn(answer.drawing) : formatted(answer.html));
  made.append(part("h2", sides > 1 ? "AB"[number] : gettext("Answer")), box);
  return made;
}

function drawn({ heading, title, size, marks, figures }) {
  const widget = part("figure", "", `widget ${size}`), caption = part("figcaption", ""), list = part("dl", "");
  caption.append(...(heading ? [part("span", heading, "soft")] : []), part("b", title));
  list.append(...figures.map(figureRow));
  const below = part("p", "", "marks");
  below.append(...marks.map((mark) => part("span", mark, "mark")));
  widget.append(caption, list, below);
  return widget;
}

function figureRow({ label, text, share }) {
  const row = part("div", ""), value = part("dd", text);
  if (share !== null) {
    const bar = Object.assign(part("meter", ""), { value: share, ariaHidden: "true" });
    value.append(bar);
  }
  row.append(part("dt", label), value);
  return row;
}

function tag(name) {
  const label = part("label", "", "tag");
  label.append(Object.assign(document.createElement("input"), { type: "checkbox", name: "tags", value: name }), ` ${TAGS[name] ?? name}`);
  return label;
}

// --- long answers: cut at equal height, scrolled together ----------------------------------------------------------------

const boxes = () => [...$("answers").querySelectorAll(".answer")];

function cut() {
  $("answers").classList.remove("whole");
  const isLong = boxes().map((box) => box.scrollHeight > box.clientHeight + 1);
  boxes().forEach((box, number) => {
    if (isLong[number]) box.tabIndex = 0; // so that it can be scrolled by keyboard
    box.scrollTop = 0;
  });
  $("whole").hidden = !isLong.includes(true);
  nameToggle();
}

function nameToggle() {
  const isWhole = $("answers").classList.contains("whole");
  $("whole").setAttribute("aria-expanded", String(isWhole));
  $("whole").textContent = isWhole ? gettext("Show less") : gettext("Show all");
}

export function toggleWhole() {
  $("answers").classList.toggle("whole");
  nameToggle();
}

let leading = null, timer;

$("answers").addEventListener("scroll", ({ target }) => {
  if (leading && leading !== target) return; // it follows
  leading = target;
  clearTimeout(timer);
  timer = setTimeout(() => { leading = null; }, 100);
  const share = target.scrollTop / Math.max(target.scrollHeight - target.clientHeight, 1);
  for (const box of boxes()) if (box !== target) box.scrollTop = share * (box.scrollHeight - box.clientHeight);
}, { capture: true, passive: true });
