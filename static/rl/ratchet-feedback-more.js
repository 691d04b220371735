/* What <ratchet-feedback type="pair">, type="edit" and type="choice" draw; ratchet-feedback.js loads it where a page has one. */
const texts = {
  en: {
    pair: "Which answer is better?", left: "Left is better", right: "Right is better", tie: "Equally good",
    both_bad: "Both bad", a: "Left answer", b: "Right answer", edit: "Correct this answer", send: "Send correction",
    same: "Change the text first.", choice: "What is right?", fits: "Right",
  },
  de: {
    pair: "Welche Antwort ist besser?", left: "Links ist besser", right: "Rechts ist besser", tie: "Gleich gut",
    both_bad: "Beide schlecht", a: "Linke Antwort", b: "Rechte Antwort", edit: "Diese Antwort verbessern",
    send: "Verbesserung senden", same: "Erst den Text ändern.", choice: "Was ist richtig?", fits: "Richtig",
  },
  es: {
    pair: "¿Qué respuesta es mejor?", left: "Mejor la izquierda", right: "Mejor la derecha", tie: "Iguales",
    both_bad: "Ambas malas", a: "Izquierda", b: "Derecha", edit: "Corregir esta respuesta",
    send: "Enviar corrección", same: "Cambiar antes el texto.", choice: "¿Qué es correcto?", fits: "Correcta",
  },
};
const KEYS = { left: ["arrowleft", "a"], tie: ["arrowdown", "e"], both_bad: ["x"], right: ["arrowright", "b"] };
const SIGNS = { left: "←", tie: "↓", both_bad: "X", right: "→" };
const css = `
[part=answers] { align-items: stretch; margin-bottom: .5rem }
section { flex: 1 1 14rem; box-sizing: border-box; min-width: 0; padding: .75rem; overflow-wrap: anywhere;
  border: 1px solid var(--ratchet-border, #808080); border-radius: var(--ratchet-radius, .5rem); white-space: pre-wrap }
[part=edit] { display: flex; flex-direction: column; gap: .375rem; align-items: flex-start }
[part=text] { width: 100%; min-height: 8rem; flex: none }
kbd { font: inherit; opacity: .75; margin-inline-end: .35em }`;

const labelled = (name) => ({ "data-text": name, "data-as": "aria-label" });

const draws = new WeakMap(); // element: the pair that it shows, and whether its sides are swapped

/** Sides are drawn once for a pair, so that a change of language does not move the answers. */
function isSwapped(host, pair) {
  if (draws.get(host)?.pair !== pair) {
    draws.set(host, { pair, swapped: crypto.getRandomValues(new Uint8Array(1))[0] % 2 === 1 });
  }
  return draws.get(host).swapped;
}

function comparison(host, choice, swapped) {
  const { trace, otherTrace, token, otherToken } = host;
  const sides = swapped ? [otherTrace, trace, otherToken, token] : [trace, otherTrace, token, otherToken];
  const tokens = { ...(sides[2] && { token: sides[2] }), ...(sides[3] && { other_token: sides[3] }) };
  return { kind: "comparison", trace: sides[0], other_trace: sides[1], choice, ...tokens, rated_at: new Date() };
}

function pair(host, make, post) {
  const swapped = isSwapped(host, [host.trace, host.otherTrace].join());
  const answers = [["answer", host.answer], ["other-answer", host.otherAnswer]];
  const boxes = (swapped ? answers.reverse() : answers).map(([name, text], at) => (
    make("section", { part: "answer", ...labelled(at ? "b" : "a") }, make("slot", { name }, text ?? ""))
  ));
  const buttons = Object.entries(SIGNS).map(([choice, sign]) => {
    const hint = make("kbd", { "aria-hidden": true }, sign), text = make("span", { "data-text": choice });
    const shown = { part: `choice ${choice.replace("_", "-")}`, "aria-pressed": false };
    const button = make("button", { type: "button", ...shown }, hint, text);
    button.onclick = () => press(buttons, button, post(comparison(host, choice, swapped)));
    return button;
  });
  const controls = make("div", { part: "controls", role: "group", ...labelled("pair") }, ...buttons);
  const whole = make("div", { part: "answers" }, ...boxes);
  const frame = make("div", { part: "pair" }, whole, controls);
  frame.onkeydown = (event) => onKey(event, buttons);
  return [frame];
}

/** Shows it as chosen, unless the page forbids to send it. */
async function press(buttons, pressed, sending) {
  const before = buttons.find((button) => button.getAttribute("aria-pressed") === "true");
  show(buttons, pressed);
  if (!(await sending)) show(buttons, before);
}

function show(buttons, pressed) {
  for (const button of buttons) {
    button.setAttribute("aria-pressed", button === pressed);
    button.part.toggle("on", button === pressed);
  }
}

function onKey(event, buttons) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.repeat) return;
  const choice = Object.keys(KEYS).find((name) => KEYS[name].includes(event.key.toLowerCase()));
  if (!choice) return;
  buttons[Object.keys(SIGNS).indexOf(choice)].click();
  event.preventDefault();
}

const answerOf = (host) => host.querySelector("[slot=answer]")?.textContent.trim() ?? host.answer ?? "";

function edit(host, make, post, tell) {
  const answer = answerOf(host);
  const box = make("textarea", { part: "text", ...labelled("edit") }, answer);
  const send = () => box.value.trim() && box.value !== answer
    ? post({ kind: "correction", text: box.value, rated_at: new Date() }) : tell("same");
  const button = make("button", { type: "button", part: "send", "data-text": "send" });
  button.onclick = send;
  box.onkeydown = (event) => { if ((event.ctrlKey || event.metaKey) && event.key === "Enter") send(); };
  return [make("div", { part: "edit" }, box, button)];
}

const MOST = 100;

/** As a JSON list, or with commas between. */
function listOf(text) {
  try { return JSON.parse(text).map(String); } catch { return text.split(",").map((part) => part.trim()).filter(Boolean); }
}

/** Those of the attribute, else those that the site knows of the answer's agent. */
async function valuesOf({ values, api, publicKey, trace, token }) {
  if (values) return listOf(values);
  const query = new URLSearchParams({ trace, ...(token && { token }) });
  const headers = { Authorization: `Bearer ${publicKey}` };
  const response = await fetch(`${api}/api/v1/feedback/choices/?${query}`, { credentials: "omit", headers });
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return (await response.json()).values;
}

const plain = (text) => text.trim().toLowerCase().replace(/\.$/, "");

function choice(host, make, post) {
  const answer = answerOf(host), buttons = [];
  const box = make("div", { part: "controls", role: "group", ...labelled("choice") });
  const add = (part, sign, label, body) => {
    const hint = make("kbd", { "aria-hidden": true }, sign);
    const button = make("button", { type: "button", part, "aria-pressed": false }, ...(sign ? [hint] : []), label);
    button.onclick = () => press(buttons, button, post({ ...body, rated_at: new Date() }));
    buttons.push(button);
    box.append(button);
  };
  const right = { scale: "thumb", value: 1 };
  if (answer) add("choice up", "✓", make("span", { "data-text": "fits" }), right);
  valuesOf(host).then((values) => values.slice(0, MOST).forEach((text, at) => {
    const isOwn = plain(text) === plain(answer);
    add("choice value", at < 9 ? at + 1 : "", text, isOwn ? right : { kind: "correction", text });
  })).catch((error) => console.warn("<ratchet-feedback> has no values:", error.message));
  box.onkeydown = (event) => {
    const key = Number(event.key), at = key - 1 + (answer ? 1 : 0);
    if (!key || event.altKey || event.ctrlKey || event.metaKey || event.repeat || !buttons[at]) return;
    buttons[at].click();
    event.preventDefault();
  };
  return [box];
}

export default { pair, edit, choice, texts, css };
