/* <ratchet-feedback public-key="pk_…" trace="UUID" type="thumbs|stars|score|pair|edit|choice">: a rating
   of an answer. Around a <form> it sends that form's `value`, `tags` and `notes` in place; else it draws its own controls.
   A rating is stored before it is sent. The server keeps one per trace and rater, so sending twice does no harm. */
const SCORES = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
const CHOICES = { __proto__: null, thumbs: [1, 0], stars: [1, 2, 3, 4, 5], score: SCORES };
const KEYS = { thumbs: "ud12", stars: "12345", score: "0123456789" };
const TEXTS = {
  __proto__: null,
  en: {
    question: "Rate this answer", up: "Helpful", down: "Not helpful", star: "{n} of 5 stars", point: "{n} of 10",
    note: "Add a note (optional)", send: "Send", sent: "Thank you, saved.", removed: "Rating removed.",
    queued: "Kept on this device until it can be sent.", error: "Your rating could not be saved.",
    refused: "This page may not rate.", gone: "This answer can no longer be rated.",
  },
  de: {
    question: "Diese Antwort bewerten", up: "Hilfreich", down: "Nicht hilfreich", star: "{n} von 5 Sternen",
    point: "{n} von 10", note: "Notiz (freiwillig)", send: "Senden", sent: "Danke, gespeichert.",
    removed: "Bewertung entfernt.", queued: "Gemerkt, bis gesendet werden kann.",
    error: "Die Bewertung konnte nicht gespeichert werden.", refused: "Diese Seite darf nicht bewerten.",
    gone: "Diese Antwort kann nicht mehr bewertet werden.",
  },
  es: {
    question: "Valorar esta respuesta", up: "Útil", down: "No es útil", star: "{n} de 5 estrellas", point: "{n} de 10",
    note: "Nota (opcional)", send: "Enviar", sent: "Gracias, guardado.", removed: "Valoración retirada.",
    queued: "Se guarda aquí hasta que se pueda enviar.", error: "No se pudo guardar la valoración.",
    refused: "Esta página no puede valorar.", gone: "Esta respuesta ya no se puede valorar.",
  },
};
const THUMB = "M7 11v9H4v-9zM7 11l4-8c1.6 0 2.6 1 2.6 2.6V9h4.9a2 2 0 0 1 2 2.3l-1.2 7a2 2 0 0 1-2 1.7H7z";
const STAR = "M12 3l2.8 5.7 6.2.9-4.5 4.4 1.1 6.2-5.6-3-5.6 3 1.1-6.2L3 9.6l6.2-.9z";
const STYLE = `
:host { display: block; --accent: var(--ratchet-accent, light-dark(#1d4ed8, #8ab4ff)) }
:host([hidden]), [hidden] { display: none !important }
div { display: flex; flex-wrap: wrap; gap: .375rem }
button, textarea, label { min-width: var(--ratchet-size, 2.75rem); min-height: var(--ratchet-size, 2.75rem);
  border: 1px solid var(--ratchet-border, #808080); border-radius: var(--ratchet-radius, .5rem); box-sizing: border-box;
  padding: .375rem .75rem; font: inherit; color: inherit; background: none }
label { display: flex; align-items: center } textarea { flex: 1 1 12rem }
[part=tags] { flex-basis: 100% } [part=details] { margin-top: .5rem } [part~=down] svg { rotate: 180deg }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
svg { display: block; margin: auto; width: 1.25rem; fill: none; stroke: currentColor; stroke-width: 1.6 }
[part~=on] { color: var(--accent); border-color: currentColor; font-weight: 700 }
[part~=on][part~=up] { color: var(--ratchet-good, light-dark(#15803d, #4ade80)) }
[part~=on][part~=down] { color: var(--ratchet-bad, light-dark(#b91c1c, #fb7185)) }
[part~=on][part~=star] { color: var(--ratchet-star, light-dark(#b45309, #fbbf24)) }
[part~=on] path { fill: currentColor }
p { margin: .25rem 0 0; min-height: 1.3em; font-size: .85em }`;
const sheets = {};

function sheetOf(text) {
  if (!sheets[text]) (sheets[text] = new CSSStyleSheet()).replaceSync(text);
  return sheets[text];
}

// What waits to be sent, and who this browser is. Without localStorage (sandboxed, full) it is forgotten with the page.
const TAG = "ratchet-feedback", QUEUE = `${TAG}-queue`, RATER = `${TAG}-rater`, LIMIT = 200, memory = {};
const PATH = "/api/v1/feedback/";

function read(name) {
  try { return memory[name] ?? localStorage[name]; } catch { return memory[name]; }
}
function write(name, text) {
  try {
    localStorage[name] = text;
    delete memory[name];
  } catch { memory[name] = text; }
  return text;
}

/** What can be sent; whatever else stands there goes with the next write. */
function waiting() {
  try {
    return JSON.parse(read(QUEUE)).filter((one) => one?.id && one.body?.trace && /^http/.test(one.api));
  } catch { return []; }
}

const randomId = () => crypto.getRandomValues(new Uint32Array(4)).join("-"); // randomUUID() wants https

function enqueue(message) {
  const queue = [...waiting().filter(({ subject }) => subject !== message.subject), message];
  write(QUEUE, JSON.stringify(queue.slice(-LIMIT)));
  for (const lost of queue.slice(0, -LIMIT)) report("error", lost, 507, { detail: `over ${LIMIT} ratings wait` });
}

// Delivery: one message at a time, in this tab and (with locks: https) in all tabs of the site.
const widgets = new Set();
let running, failures = 0, timer;

function emit(target, name, detail) {
  const options = { detail, bubbles: true, composed: true, cancelable: name === "feedback" };
  return target.dispatchEvent(new CustomEvent(`ratchet-${name}`, options));
}

/** Tells every widget that shows this rating, or the document when none does any more. */
function report(name, message, status, answer) {
  if (name === "error") console.warn(`<${TAG}> ${message.body.trace}: ${answer?.detail ?? `HTTP ${status}`}`);
  const shown = [...widgets].filter((widget) => subjectOf(widget) === message.subject);
  for (const widget of shown) settle(widget, name, message.id, words(name, status, answer), answer?.detail ?? status);
  const targets = shown.filter(({ isConnected }) => isConnected);
  for (const target of targets.length ? targets : [document]) emit(target, name, { ...message.body, status, answer });
}

/** False: the server cannot be reached, or asks for a pause. */
async function deliver(message) {
  const { api, key, body } = message, text = JSON.stringify(body);
  let status = 400, response, answer; // 400 where not even a request can be made: a key that is not ASCII
  try {
    const request = new Request(`${api}${PATH}${body.rated_at ? "" : "retract/"}`, {
      method: "POST", body: text, credentials: "omit", signal: AbortSignal.timeout(15_000),
      keepalive: text.length < 16_000, // browsers refuse a keepalive body over 64 KiB
      headers: { "Authorization": `Bearer ${key}`, "Content-Type": "application/json" },
    });
    status = 0;
    response = await fetch(request);
    status = response.status;
    answer = await response.json();
  } catch (error) {
    answer = { detail: response ? `HTTP ${status}` : error.message };
  }
  const refused = !status && !(await mayRate(api));
  const stays = !refused && (!status || status === 429 || status >= 500);
  if (!stays) write(QUEUE, JSON.stringify(waiting().filter(({ id }) => id !== message.id)));
  if (refused) answer = { detail: `${location.origin} is not among the origins that a publishable key names` };
  report(stays ? "queued" : status >= 200 && status < 300 ? "sent" : "error", message, status, answer);
  return status >= 500 || !stays;
}

/** A browser shows a page that may not rate the same as a network that is down; this alone it lets every page read. */
async function mayRate(api) {
  try {
    const response = await fetch(`${api}${PATH}origin/`, { credentials: "omit", signal: AbortSignal.timeout(5_000) });
    return (await response.json()).may_rate !== false;
  } catch { return true; }
}

/** Which words tell a person why; the reason itself is for the page's author. */
function words(name, status, answer) {
  if (name !== "error") return name;
  if (status === 404 || answer?.type?.endsWith("token-refused")) return "gone";
  return [0, 401, 403].includes(status) && answer ? "refused" : "error";
}

async function drain() {
  const tried = new Set();
  try {
    for (let next; (next = waiting().find(({ id, api }) => !tried.has(id) && !tried.has(api)));) {
      tried.add(await deliver(next) ? next.id : next.api);
    }
  } finally { // no await since the last look: a later rating starts the next drain
    running = null;
    failures = waiting().length && failures + 1;
    if (failures) timer = setTimeout(flush, Math.min(300_000, 1000 * 2 ** failures) * (0.5 + Math.random() / 2));
  }
}

function flush() {
  clearTimeout(timer);
  return running ??= (navigator.locks?.request(QUEUE, drain) ?? Promise.reject()).catch(drain); // sandboxed: denied
}

/** The element itself, and the hosts of the shadow roots around it. */
const hostsOf = (node) => node?.closest ? [node, ...hostsOf(node.getRootNode().host)] : [];

// The element: its own form in its shadow, or the author's in a slot.
function make(tag, attributes, ...children) {
  const kind = tag === "svg" || tag === "path" ? "2000/svg" : "1999/xhtml";
  const node = document.createElementNS(`http://www.w3.org/${kind}`, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const MORE = ["pair", "edit", "choice"]; // types of a second module, loaded where a page has them
const strange = new Set();
const UNRATED = { value: null, tags: [], notes: "" };
const CHATTER = 40; // milliseconds

// Each is a property too. Frameworks set that, or an attribute, perhaps without the hyphen.
const ANEW = ["public-key", "trace", "other-trace", "type", "answer", "other-answer", "values", "api", "rater"];
const ATTRIBUTES = [...ANEW, "token", "other-token", "tags"];
const namesOf = (name) => [name, name.replace("-", ""), name.replace("public-", "")];
const attribute = (host, name) => namesOf(name).map((each) => host.getAttribute(each)).find(Boolean) ?? null;

/** Texts, numbers, and lists with commas between; anything else is nothing. */
function textOf(value) {
  try { return /string|number|object/.test(typeof value) ? String(value ?? "") : ""; } catch { return ""; }
}

let settle, subjectOf, observer;

class RatchetFeedback extends (globalThis.HTMLElement ?? Object) {
  static observedAttributes = [...ANEW.flatMap(namesOf), "tags"];
  static {
    settle = (widget, ...news) => widget.#settle(...news);
    subjectOf = (widget) => widget.#subject;
  }
  #state = UNRATED; // what is shown
  #saved = UNRATED; // what the server has: shown again when it refuses a change
  #sending; // the newest message, until the server has answered for it
  #form; #own; // whether the form is drawn here
  #given; // the form of the page or null; undefined before anything is drawn
  #texts; // of a type of the second module
  #pressed; // the last key event
  #root = this.attachShadow({ mode: "open" });

  constructor() {
    super();
    this.addEventListener("keydown", (event) => this.#onKey(event));
    for (const name of ["click", "keydown"]) this.#root.addEventListener(name, (e) => this.#ignoreEcho(e), true);
  }

  get type() { return attribute(this, "type") ?? "thumbs"; }
  get rater() {
    const kept = read(RATER);
    return attribute(this, "rater") ?? (/^[\d-]{7,64}$/.test(kept) ? kept : write(RATER, randomId()));
  }
  /** The address of the site, or nothing. */
  get api() {
    try {
      const { origin, pathname } = new URL(attribute(this, "api") ?? import.meta.url);
      return /^http/.test(origin) ? origin + pathname.replace(/(\/static\/rl)?\/([\w-]+\.js)?$/, "") : "";
    } catch { return ""; }
  }
  get value() { return this.#state.value; }
  set value(_) { console.warn(`<${TAG}>: rate() sets the value`); }
  get #subject() {
    const about = [this.trace, this.otherTrace].sort().join(" ");
    return [this.api, this.type in CHOICES ? this.trace : `${this.type} ${about}`, this.rater].join(" ");
  }

  connectedCallback() {
    for (const [name, value] of Object.entries(this)) { // properties that were set before this module was there
      if (name in RatchetFeedback.prototype && delete this[name]) this[name] = value;
    }
    widgets.add(this);
    if (this.querySelector("form") !== this.#given) this.#draw();
    this.connectedMoveCallback();
    flush();
  }
  /** What is shown stays, perhaps in another language. */
  connectedMoveCallback() {
    observer ??= new MutationObserver(() => { for (const widget of widgets) widget.#translate(); });
    observer.observe(this, { attributes: true }); // label-…
    for (const host of hostsOf(this)) {
      observer.observe(host.getRootNode(), { attributeFilter: ["lang"], subtree: true });
    }
    this.#translate();
  }
  /** Out of the page, perhaps for a while, it still hears how its rating fared. */
  disconnectedCallback() { if (!this.#sending) widgets.delete(this); }
  attributeChangedCallback(name, before, after) {
    if (this.#given === undefined || before === after) return;
    if (name === "tags") this.#drawTags();
    else this.reset();
  }

  /** thumbs 0 or 1, stars 1 to 5, score 0 to 1. Resolves after the attempt to send it. */
  rate(value, { tags = this.#state.tags, notes = this.#state.notes } = {}) {
    const fits = this.type === "score" ? value >= 0 && value <= 1 : CHOICES[this.type]?.includes(value);
    if (!fits) throw new RangeError(`${value} is not a rating of type ${this.type}`);
    return this.#send({ value, tags, notes });
  }

  retract() { return this.#send(UNRATED); }
  flush() { return flush(); }

  /** Shows no rating, and sends nothing. */
  reset() {
    this.#draw();
    this.#show(this.#saved = UNRATED);
    this.#sending = null;
  }

  async #send(state) {
    const rating = { scale: this.type.replace("bs", "b"), ...state, rated_at: new Date() };
    await this.#post(state.value === null ? {} : rating, state);
  }

  /** `body` without what every kind says; gives whether it was taken. */
  async #post(body, state) {
    const { trace, rater, api, token, publicKey: key } = this, subject = this.#subject, id = randomId();
    body = { trace, rater, ...(token && { token }), ...body };
    if (!emit(this, "feedback", body)) return false;
    this.#sending = { id, state };
    const message = { id, subject, api, key, body };
    if (!key || !trace || !api) {
      report("error", message, 400, { detail: "needs public-key, trace and in api an address" });
      return false;
    }
    this.#show(state);
    enqueue(message);
    await flush();
    return true;
  }

  /** What became of a message; only the newest changes what is shown. */
  #settle(name, id, shown, problem) {
    if (id !== this.#sending?.id) return;
    if (name === "sent") this.#saved = this.#sending.state;
    if (name === "error") this.#show(this.#saved);
    this.#tell(name === "sent" && this.#sending.state === UNRATED ? "removed" : shown, problem);
    if (name === "queued") return;
    this.#sending = null;
    if (!this.isConnected) widgets.delete(this);
  }

  #tell(text, n) {
    const status = this.#part("status");
    status.textContent = ""; // the same words again are read out again
    Object.assign(status.dataset, { text, n });
    this.#translate();
  }

  /** Nobody means a second click, or a key that is held or chatters. Arrows and Tab go on. */
  #ignoreEcho(event) {
    const { key, target, timeStamp } = event, last = this.#pressed;
    if (key) this.#pressed = event;
    const isEcho = key ? event.repeat || (last?.key === key && timeStamp - last.timeStamp < CHATTER) : event.detail > 1;
    const control = target.closest("button, label, [type=checkbox], [type=radio]");
    const isOurs = this.#root.contains(control) || this.#form?.contains(control);
    if (!isEcho || !isOurs || (key?.length > 1 && key !== "Enter")) return;
    event.preventDefault();
    event.stopPropagation();
  }

  #onSubmit = (event) => {
    const data = new FormData(this.#form, event.submitter);
    const value = data.has("value") ? Number(data.get("value")) : this.value;
    if (value === null) return; // a form without a rating posts as it would without this module
    const state = { value, tags: data.getAll("tags"), notes: data.get("notes") ?? "" };
    if (JSON.stringify(state) !== JSON.stringify(this.#state)) this.rate(value, state);
    else if (event.submitter?.name === "value") this.retract();
    event.preventDefault(); // after rate(): a value it does not know is left to the server
    if (!this.#own) return;
    this.#part("details").hidden = true;
    this.#field(value).focus();
  };

  #onKey(event) {
    const key = event.key?.toLowerCase(), target = event.composedPath()[0], chord = event.ctrlKey || event.metaKey;
    if (event.altKey || event.repeat || event.isComposing) return;
    if (chord && key === "enter" && target.name === "notes" && this.#form) this.#form.requestSubmit();
    if (chord || !this.#form || target.matches("input, textarea, select")) return;
    const values = CHOICES[this.type], choice = this.#field(values[KEYS[this.type].indexOf(key) % values.length]);
    if (choice) choice.click();
    else if (key === "z" && this.value !== null) this.retract();
    else if (!this.#moveFocus(key)) return;
    event.preventDefault();
  }

  /** Arrow keys move without rating: every rating is kept as an event on the server. */
  #moveFocus(key) {
    const fields = this.#fields(), from = fields.indexOf(this.#root.activeElement);
    const step = { arrowright: 1, arrowdown: 1, arrowleft: -1, arrowup: -1 }[key];
    if (step && from >= 0) this.#tabStop(fields.at((from + step) % fields.length)).focus();
    return step && from >= 0;
  }

  /** A radio group is one stop for the Tab key. */
  #tabStop(stop) {
    for (const field of this.#fields()) if (field.role === "radio") field.tabIndex = field === stop ? 0 : -1;
    return stop;
  }

  /** Writes each text where `data-as` says, else as the content. */
  #translate() {
    const near = hostsOf(this).map((host) => host.closest("[lang]:not([lang=''])")).find(Boolean);
    const asked = (near?.getAttribute("lang") ?? navigator.language).split("-")[0].toLowerCase();
    const language = asked in TEXTS ? asked : "en";
    const words = { ...TEXTS[language], ...this.#texts?.[language] };
    for (const node of this.#root.querySelectorAll("[data-text]")) {
      const { text, as, n } = node.dataset;
      const shown = (this.getAttribute(`label-${text}`) ?? words[text]).replace("{n}", () => n);
      if (as) for (const name of as.split(" ")) node.setAttribute(name, shown);
      else if (node.textContent !== shown) node.textContent = shown;
    }
  }

  #isLow(value) { return value <= (this.type === "stars" ? 3 : 0.5); }
  #part(name) { return this.#root.querySelector(`[part~=${name}]`); }
  #fields() { return [...this.#form.querySelectorAll("[name=value]")]; }
  #field(value) { return this.#fields().find((field) => Number(field.value) === value); }

  #draw() {
    this.#given = this.querySelector("form");
    this.#texts = this.#form = this.#own = null;
    const status = make("p", { part: "status", role: "status" });
    if (!(this.type in CHOICES)) return this.#drawMore(status);
    this.#own = !this.#given;
    this.#form = this.#given ?? make("form", {}, this.#choices(), this.#details());
    this.#root.adoptedStyleSheets = [sheetOf(STYLE)];
    this.#root.replaceChildren(this.#own ? this.#form : make("slot", {}), status);
    if (this.#own || this.publicKey) this.#form.addEventListener("submit", this.#onSubmit);
    this.#drawTags();
    this.#translate();
  }

  async #drawMore(status) {
    const { type } = this;
    this.#root.replaceChildren(status);
    if (MORE.includes(type)) {
      const drawings = await import("./ratchet-feedback-more.js").then((module) => module.default, console.warn);
      if (!drawings || !status.parentNode) return;
      this.#texts = drawings.texts;
      this.#root.adoptedStyleSheets = [STYLE, drawings.css].map(sheetOf);
      this.#root.prepend(...drawings[type](this, make, (body) => this.#post(body, body), (name) => this.#tell(name)));
      this.#translate();
    } else if (!strange.has(type) && strange.add(type)) {
      console.warn(`<${TAG}> knows no type "${type}": ${[...Object.keys(CHOICES), ...MORE].join(", ")}`);
    }
  }

  #choices() {
    const role = this.type === "thumbs" ? "group" : "radiogroup";
    const buttons = CHOICES[this.type].map((value) => this.#choice(value));
    return make("div", { part: "controls", role, "data-text": "question", "data-as": "aria-label" }, ...buttons);
  }

  #choice(value) {
    const name = { thumbs: value ? "up" : "down", stars: "star", score: "point" }[this.type];
    const n = this.type === "score" ? value * 10 : value, words = { "data-text": name, "data-n": n };
    const path = make("path", { d: name === "star" ? STAR : THUMB });
    const drawing = name === "point" ? n : make("svg", { viewBox: "0 0 24 24", "aria-hidden": true }, path);
    const shown = { part: `choice ${name}`, ...words, "data-as": "aria-label title" };
    const button = make("button", { type: "button", name: "value", value, ...shown }, drawing);
    if (this.type !== "thumbs") button.role = "radio";
    const details = this.#isLow(value) ? {} : { tags: [] };
    button.onclick = () => value === this.value ? this.retract() : this.rate(value, details);
    return button;
  }

  #details() {
    const shown = { part: "note", "data-text": "note", "data-as": "aria-label placeholder" };
    const note = make("textarea", { name: "notes", rows: 1, maxlength: 2000, ...shown });
    const tags = make("div", { part: "tags" });
    tags.onchange = () => this.rate(this.value, { tags: new FormData(this.#form).getAll("tags") });
    return make("div", { part: "details" }, tags, note, make("button", { part: "send", "data-text": "send" }));
  }

  #drawTags() {
    if (!this.#own) return;
    const names = (this.tags ?? "").split(",").map((name) => name.trim()).filter(Boolean);
    const box = (value) => make("input", { type: "checkbox", name: "tags", value });
    this.#part("tags").replaceChildren(...names.map((name) => make("label", { part: "tag" }, box(name), name)));
    this.#show(this.#state);
  }

  #show(state) {
    if (!this.#form) return;
    const { value, tags } = this.#state = state, stars = this.#own && this.type === "stars";
    if (value === null) this.#form.reset();
    for (const field of this.#fields()) {
      const on = value !== null && Number(field.value) === value;
      if (field.type === "radio") field.checked = on;
      else field.setAttribute(field.role === "radio" ? "aria-checked" : "aria-pressed", on);
      field.part.toggle("on", stars ? Number(field.value) <= value : on);
    }
    if (!this.#own) return;
    this.#tabStop(this.#field(value) ?? this.#fields()[0]);
    for (const box of this.#form.querySelectorAll("[name=tags]")) box.checked = tags.includes(box.value);
    this.#part("details").hidden = value === null;
    this.#part("tags").hidden = !this.#isLow(value);
  }
}

for (const name of ATTRIBUTES) {
  const property = name.replace(/-./, ([, letter]) => letter.toUpperCase()), { prototype } = RatchetFeedback;
  Object.defineProperty(prototype, property, {
    get() { return attribute(this, name); },
    ...Object.getOwnPropertyDescriptor(prototype, property), // its own getter
    set(value) {
      const text = textOf(value);
      if (text) this.setAttribute(name, text);
      else for (const each of namesOf(name)) this.removeAttribute(each);
    },
  });
}

const define = () => customElements.get(TAG) || customElements.define(TAG, RatchetFeedback);
if (globalThis.document) { // on a server nothing is drawn, and nothing is defined
  addEventListener("online", flush);
  document.addEventListener("visibilitychange", flush);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", define); // with the form inside parsed
  else define();
}
