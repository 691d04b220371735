/* What a queue asks, and the keys for it. `desk` has decide(fields, text), current(), focus(id), say(text) and corrected(),
   the answer as the fields have it, null where they are as they came. */

const CHOICES = {
  left: ["A is better", ["ArrowLeft", "a"]],
  tie: ["equally good", ["ArrowDown", "e"]],
  both_bad: ["both are bad", ["x"]],
  right: ["B is better", ["ArrowRight", "b"]],
};
const CHOSEN = { left: "A is better.", tie: "A tie.", both_bad: "Both are bad.", right: "B is better." };
const FEW = 5, MANY = 9, KEYED = 9;

const points = () => [...document.querySelectorAll("[name=value][type=radio]")];

function thumbs(desk) {
  const good = () => desk.decide({ value: 1 }, "Rated good.");
  const bad = () => desk.decide({ value: 0 }, "Rated bad.");
  return [
    { name: "good", keys: ["1", "u"], label: "good", run: good },
    { name: "bad", keys: ["2", "d"], label: "bad", run: bad },
  ];
}

/** Where answers are right or wrong: Enter says right, of a set a number says what it should have been. */
function right(desk, values) {
  const shown = () => desk.current().form.answer; // undefined where answers are JSON
  const choose = (text) => (text === shown() ? desk.decide({ value: 1 }, "Right.") : desk.decide({ text }, `“${text}” is right.`));
  const accept = () => {
    if (shown() === "") return desk.say("The answer is none of these. Say which is right, or skip it.");
    try {
      const text = desk.corrected();
      return text === null ? desk.decide({ value: 1 }, "Right.") : desk.decide({ text }, "Your correction is kept.");
    } catch (error) { // a field that holds no number, say
      return desk.say(error.message, true);
    }
  };
  const numbers = values.map((text, at) => ({
    name: `value-${at + 1}`, keys: at < KEYED ? [String(at + 1)] : [], label: text, run: () => choose(text), isFixed: true,
  }));
  const fields = { name: "edit", keys: ["e"], label: "go to the first field; Esc leaves it", run: () => desk.focus("fields") };
  return [
    { name: "good", keys: ["Enter", "u"], label: "right, as it stands", run: accept, isFixed: true },
    { name: "bad", keys: ["d"], label: "wrong", run: () => desk.decide({ value: 0 }, "Rated wrong."), isFixed: true },
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
    if (!chosen) return desk.say(`Choose from 1 to ${most} first.`);
    return desk.decide({ value: Number(chosen.value) }, `Rated ${points().indexOf(chosen) + 1} of ${most}.`);
  };
  const choose = ({ key }) => {
    const point = points()[Number(key) - 1];
    if (point.checked) return send();
    point.checked = true;
    return desk.say(`${key} of ${most}. The same key again, or Enter, sends it.`);
  };
  const clear = () => {
    for (const point of points()) point.checked = false;
    desk.say("Cleared.");
  };
  const keys = Array.from({ length: most }, (_, number) => String(number + 1));
  return [
    { name: "score", keys, label: "choose; again: send", run: choose, isFixed: true },
    { name: "clear", keys: ["0"], label: "choose nothing", run: clear, isFixed: true },
    { name: "send", keys: ["Enter"], label: "send what is chosen", run: send, isFixed: true },
  ];
}

function edit(desk) {
  const send = () => {
    const text = document.getElementById("text").value;
    if (!text.trim()) return desk.say("Write what the answer should have been, or skip it.");
    if (text === desk.current().answers[0].text) return desk.say("Nothing is changed yet. Change it, or skip it.");
    return desk.decide({ text }, "Your answer is kept.");
  };
  return [
    { name: "edit", keys: ["e"], label: "edit the answer", run: () => desk.focus("text") },
    { name: "send", keys: ["Enter"], label: "send the edited answer", run: send, isFixed: true },
  ];
}

const RUBRICS = {
  thumbs, pair, edit, stars: (desk) => scores(desk, FEW), score: (desk) => scores(desk, MANY),
};

/** `form` of an item: how its answer is corrected, where that takes one key or a form; `values` of the set. */
export function commandsOf(rubric, desk, form, values) {
  return form ? right(desk, form.kind === "closed" ? values : []) : RUBRICS[rubric](desk);
}
