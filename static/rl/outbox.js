/* What a rater decided and the server does not have yet. Decisions are kept in localStorage, one entry each under
   queue and person, until the server has answered for them: a reload, a lost connection and a second tab lose nothing. They
   are sent in their order, as many as wait at a time; a decision that is sent twice is stored once, by its id. */

import { reasonOf } from "./ask.js";

export const MOST = 20; // decisions in one message
const PAUSES = [1, 2, 5, 10, 30]; // seconds before another try
const LOST = gettext("No connection. What you decide is kept here and sent later.");

export class Outbox {
  #entries; // [{ number, decision, item }], oldest first
  #onItsWay = 0; // how many of the first ones the server is being asked to store
  #failures = 0;
  #timer = null;
  #isBusy = false;
  #asksAgain = false;
  #single = false; // after a message that was refused as a whole: which decision is it?

  /** name: of queue and person. ask() gives what goes along: { holding, want }.
      onAnswer(answer) gets each whole answer, onRefused(entry, error) a decision that the server did not take,
      onChange(waiting, problem) how many wait and why they are not sent. */
  constructor({ name, address, token, ask, onAnswer, onRefused, onChange }) {
    Object.assign(this, { prefix: `ratchet-outbox:${name}:`, address, token, ask, onAnswer, onRefused, onChange });
    this.#entries = this.#load();
    addEventListener("online", () => this.send());
    document.addEventListener("visibilitychange", () => document.hidden || this.send());
  }

  get waiting() {
    return this.#entries.length;
  }

  get isFull() {
    return this.waiting >= MOST;
  }

  /** The claims that are decided or skipped here, and no more to be shown. */
  get settled() {
    const last = new Map(this.#entries.map(({ decision }) => [decision.claim, decision.action]));
    return new Set([...last].filter(([, action]) => action !== "undo").map(([claim]) => claim));
  }

  /** What was decided before the page was loaded, with its items. */
  get remembered() {
    const settled = this.settled;
    return this.#entries.filter(({ decision, item }) => item && decision.action !== "undo" && settled.has(decision.claim));
  }

  add(decision, item) {
    const entry = { number: (this.#entries.at(-1)?.number ?? Date.now()) + 1, item };
    entry.decision = { id: newId(), at: new Date().toISOString(), ...decision };
    this.#entries.push(entry);
    this.#keep(entry);
    this.#tell();
    this.send();
  }

  /** Takes the last unsent decision about a claim out again. False: the server has it, or is being asked. */
  takeBack(claim) {
    const index = this.#entries.findLastIndex(({ decision }) => decision.claim === claim);
    if (index < this.#onItsWay) return false;
    const [entry] = this.#entries.splice(index, 1);
    this.#forget(entry);
    this.#tell();
    return true;
  }

  /** Sends what waits, or only renews the claims and asks for items. While a message is under way: right after it. */
  async send() {
    this.#asksAgain = this.#isBusy;
    if (this.#isBusy) return;
    this.#isBusy = true;
    clearTimeout(this.#timer);
    const batch = this.#entries.slice(0, this.#single ? 1 : MOST);
    this.#onItsWay = batch.length;
    const asked = this.#post(batch);
    const goesOn = await asked.then((answer) => this.#settle(batch, answer), (error) => this.#fail(batch, error));
    this.#onItsWay = 0;
    this.#isBusy = false;
    if (goesOn || this.#asksAgain) this.send();
  }

  async #post(batch) {
    const body = { decisions: batch.map(({ decision }) => decision), ...this.ask() };
    const response = await fetch(this.address, {
      method: "POST", redirect: "manual", body: JSON.stringify(body),
      headers: { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": this.token },
    });
    if (response.ok && response.headers.get("content-type")?.includes("json")) return response.json();
    throw Object.assign(new Error(await reasonOf(response)), { status: response.status });
  }

  /** True: there is more to send at once. */
  #settle(batch, answer) {
    const results = new Map(answer.results.map((result) => [result.id, result]));
    this.#remove(batch);
    this.#failures = 0;
    this.#single = false;
    this.#tell();
    this.onAnswer(answer);
    for (const entry of batch) {
      const { error } = results.get(entry.decision.id) ?? {};
      if (error) this.onRefused(entry, error);
    }
    return this.waiting > 0;
  }

  /** True: try again at once, with the first decision alone. */
  #fail(batch, error) {
    if (error.status === 400 && batch.length) {
      if (batch.length === 1) {
        this.#remove(batch);
        this.onRefused(batch[0], error.message);
      }
      this.#single = batch.length > 1;
      this.#tell();
      return this.waiting > 0;
    }
    const pause = PAUSES[Math.min(this.#failures++, PAUSES.length - 1)];
    this.#timer = setTimeout(() => this.send(), pause * 1000);
    this.#tell(error instanceof TypeError ? LOST : error.message);
    return false;
  }

  #remove(batch) {
    this.#onItsWay = 0;
    this.#entries = this.#entries.filter((entry) => !batch.includes(entry));
    batch.forEach((entry) => this.#forget(entry));
  }

  #tell(problem = "") {
    this.onChange(this.waiting, problem);
  }

  // --- what outlives the page -----------------------------------------------------------------------------------------

  #load() {
    try {
      const names = Object.keys(localStorage).filter((name) => name.startsWith(this.prefix));
      return names.map((name) => JSON.parse(localStorage.getItem(name))).sort((a, b) => a.number - b.number);
    } catch {
      return []; // without storage, or with what is not ours in it
    }
  }

  #keep(entry) {
    try {
      localStorage.setItem(this.prefix + entry.decision.id, JSON.stringify(entry));
    } catch {
      // kept as long as the page is open
    }
  }

  #forget(entry) {
    try {
      localStorage.removeItem(this.prefix + entry.decision.id);
    } catch {
      // nothing was kept
    }
  }
}

/** crypto.randomUUID is there under HTTPS and on localhost alone. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
