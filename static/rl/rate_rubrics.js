/* What a queue asks, and the keys for it. `desk` has decide(fields, text), current(), focus(id), say(text) and corrected(),
   the answer as the fields have it, null where they are as they came. */

import { compose } from "./words.js";

const CHOICES = {
  left: [gettext("A is better"), ["ArrowLeft", "a"]],
  tie: [gettext("equally good"), ["ArrowDown", "e"]],
  both_bad: [gettext("both are bad"), ["x"]],
  right: [gettext("B is better"), ["ArrowRight", "b"]],
};
const CHOSEN = {
  left: gettext("A is better."), tie: gettext("A tie."), both_bad: gettext("Both are bad."), right: gettext("B is better."),
};
const FEW = 5, MANY = 9, KEYED = 9;

const points = () => [...document.querySelectorAll("[name=value][type=radio]")];

function thumbs(desk) {
  const good = () => desk.decide({ value: 1 }, gettext("Rated good."));
  const bad = () => desk.decide({ value: 0 }, gettext("Rated bad."));
  return [
    { name: "good", keys: ["1", "u"], label: gettext("good"), run: good },
    { name: "bad", keys: ["2", "d"], label: gettext("bad"), run: bad },
  ];
}

/** Where answers are right or wrong: Enter says right, of a set a number says what it should have been. */
function right(desk, values) {
  const shown = () => desk.current().form.answer; // undefined where answers are JSON
  const choose = (text) => (text === shown() ? desk.decide({ value: 1 }, gettext("Right.")) : desk.decide({ text }, compose(gettext("“%(text)s” is right."), { text })));
  const accept = () => {
    if (shown() === "") return desk.say(gettext("The answer is none of these. Say which is right, or skip it."));
    try {
      const text = desk.corrected();
      return text === null ? desk.decide({ value: 1 }, gettext("Right.")) : desk.decide({ text }, gettext("Your correction is kept."));
    } catch (error) { // a field that holds no number, say
      return desk.say(error.message, true);
    }
  };
  const numbers = values.map((text, at) => ({
    name: `value-${at + 1}`, keys: at < KEYED ? [String(at + 1)] : [], label: text, run: () => choose(text), isFixed: true,
  }));
  const fields = { name: "edit", keys: ["e"], label: gettext("go to the first field; Esc leaves it"), run: () => desk.focus("fields") };
  return [
    { name: "good", keys: ["Enter", "u"], label: gettext("right, as it stands"), run: accept, isFixed: true },
    { name: "bad", keys: ["d"], label: gettext("wrong"), run: () => desk.decide({ value: 0 }, gettext("Rated wrong.")), isFixed: true },
    ...(values.length ? numbers : [fields]),
  ];
}

function pair(desk) {
  return Object.entries(CHOICES).map(([name, [label, keys]]) => (
    { name, keys, label, run: () => desk.decide({ choice: name }, CHOSEN[name]) }
  ));
}

/** A number chooses; the same number again, or Enter, sends. */
function scores(desk, most) {
  const send = () => {
    const chosen = points().find((point) => point.checked);
    if (!chosen) return desk.say(compose(gettext("Choose from 1 to %(most)s first."), { most }));
    return desk.decide({ value: Number(chosen.value) }, compose(gettext("Rated %(number)s of %(most)s."), { number: points().indexOf(chosen) + 1, most }));
  };
  const choose = ({ key }) => {
    const point = points()[Number(key) - 1];
    if (point.checked) return send();
    point.checked = true;
    return desk.say(compose(gettext("%(key)s of %(most)s. The same key again, or Enter, sends it."), { key, most }));
  };
  const clear = () => {
    for (const point of points()) point.checked = false;
    desk.say(gettext("Cleared."));
  };
  const keys = Array.from({ length: most }, (_, number) => String(number + 1));
  return [
    { name: "score", keys, label: gettext("choose; again: send"), run: choose, isFixed: true },
    { name: "clear", keys: ["0"], label: gettext("choose nothing"), run: clear, isFixed: true },
    { name: "send", keys: ["Enter"], label: gettext("send what is chosen"), run: send, isFixed: true },
  ];
}

function edit(desk) {
  const send = () => {
    const text = document.getElementById("text").value;
    if (!text.trim()) return desk.say(gettext("Write what the answer should have been, or skip it."));
    if (text === desk.current().answers[0].text) return desk.say(gettext("Nothing is changed yet. Change it, or skip it."));
    return desk.decide({ text }, gettext("Your answer is kept."));
  };
  return [
    { name: "edit", keys: ["e"], label: gettext("edit the answer"), run: () => desk.focus("text") },
    { name: "send", keys: ["Enter"], label: gettext("send the edited answer"), run: send, isFixed: true },
  ];
}

const RUBRICS = {
  thumbs, pair, edit, stars: (desk) => scores(desk, FEW), score: (desk) => scores(desk, MANY),
};

/** `form` of an item: how its answer is corrected, where that takes one key or a form; `values` of the set. */
export function commandsOf(rubric, desk, form, values) {
  return form ? right(desk, form.kind === "closed" ? values : []) : RUBRICS[rubric](desk);
}
