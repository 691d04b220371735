/* Two answers to one question, side by side: they stream, one is preferred, and then the names are shown.

   Whoever votes before both have ended has decided; the vote is sent as soon as both are complete. */

import { post } from "./ask.js";
import { askFor, explain, formatAnswer, showAnswer, showEnding, textOf } from "./turns.js";
import { compose } from "./words.js";

const WORDS = {
  a: gettext("A is better."), b: gettext("B is better."), tie: gettext("A tie."), both_bad: gettext("Both are bad."),
};
const LATE = 500, TRIES = 4; // an answer that was stopped is written down a moment later

/** What is said where one model gave both answers. */
function asTwice([a, b]) {
  return a.version === b.version ? ` ${gettext("Both are the same model, asked twice.")}` : "";
}

export class Duel {
  #pair = null;
  #state = "open"; // open, decided, saved, skipped, void
  #stopped = false;
  #choice = "";

  /** `page`: {draw, vote, format, token, changed(duel), counted(votes)}. */
  constructor(question, page) {
    Object.assign(this, { question, page });
    this.element = document.getElementById("duel-template").content.cloneNode(true).firstElementChild;
    this.element.querySelector(".question").textContent = question;
    this.sides = Object.fromEntries(["a", "b"].map((name) => [name, this.#part(`[data-side="${name}"]`)]));
    this.#part(".votes").addEventListener("click", (event) => this.decide(event.target.closest("button")?.value));
    this.#part(".undo").addEventListener("click", () => this.undo());
    this.#part(".rewrite").addEventListener("click", () => this.openEditor());
    this.#part(".editor").addEventListener("submit", (event) => {
      event.preventDefault();
      this.saveEdit();
    });
    this.#part(".editor .cancel").addEventListener("click", () => this.#closeEditor());
  }

  get isOpen() {
    return this.#state === "open";
  }

  /** What the conversation goes on from: the better one, else A, else the one that came. */
  get answer() {
    const [a, b] = ["a", "b"].map((name) => this.#answerOf(name));
    return this.#choice === "b" ? b : a || b;
  }

  async ask(messages, conversation, signal) {
    signal.addEventListener("abort", () => { this.#stopped = true; });
    try {
      this.#pair = (await post(this.page.draw, this.page.token, [])).pair;
    } catch (error) {
      for (const name of ["a", "b"]) this.#settle(name, error);
      return this.#makeVoid("");
    }
    await Promise.all(["a", "b"].map((name) => this.#stream(name, { messages, conversation }, signal)));
    if (!this.#answerOf("a") || !this.#answerOf("b")) return this.#makeVoid(gettext("There is nothing to compare."));
    if (this.#answerOf("a") === this.#answerOf("b")) return this.#makeVoid(gettext("Both answers are the same: nothing to compare."));
    return this.#state === "decided" ? this.#save() : undefined;
  }

  // --- deciding -----------------------------------------------------------------------------------------------------

  decide(choice) {
    if (!this.isOpen || !choice) return false;
    this.#choice = choice;
    this.#become(choice === "skip" ? "skipped" : "decided");
    this.#say(choice === "skip" ? gettext("Skipped.") : `${WORDS[choice]} ${gettext("Saved when both answers are complete.")}`);
    if (choice !== "skip" && this.#isComplete()) this.#save();
    this.page.changed(this);
    return true;
  }

  async undo() {
    if (this.#state === "decided" && !this.#isComplete()) return this.#reopen(gettext("Taken back."));
    if (this.#state === "skipped") return this.#reopen("");
    if (this.#state !== "saved") return undefined;
    try {
      this.page.counted(await this.#send([["action", "undo"]]));
      this.#closeEditor();
      this.#showEdit("");
      return this.#reopen(gettext("Taken back. You have seen the names: a new vote is marked as not blind."));
    } catch (error) {
      return this.#say(compose(gettext("Not taken back: %(reason)s"), { reason: explain(error) }));
    }
  }

  openEditor() {
    if (this.#state !== "saved") return this.#say(gettext("Say first which answer is better; then you can edit it."));
    const field = this.#part(".editor textarea");
    field.value = this.#part(".editor").dataset.text ?? this.answer;
    this.#part(".editor").hidden = false;
    field.focus({ preventScroll: true });
    return this.#part(".editor").scrollIntoView({ block: "center" }); // the box for questions covers the end of the page
  }

  async saveEdit() {
    const text = this.#part(".editor textarea").value;
    try {
      this.page.counted(await this.#send([["action", "edit"], ["text", text]]));
      this.#part(".editor").dataset.text = text;
      this.#closeEditor();
      this.#showEdit(text);
      this.#say(gettext("Your version is saved."));
    } catch (error) {
      this.#say(compose(gettext("Not saved: %(reason)s"), { reason: explain(error) }));
    }
  }

  async #save() {
    for (let tries = this.#stopped ? TRIES : 1; ; tries--) {
      try {
        const news = await this.#send([["choice", this.#choice]]);
        this.#reveal(news.sides);
        this.#become("saved");
        this.page.counted(news);
        return this.#say(`${WORDS[this.#choice]} ${gettext("Saved.")}${asTwice(news.sides)}`);
      } catch (error) {
        if (tries > 1) await new Promise((resolve) => { setTimeout(resolve, LATE); });
        else return this.#reopen(compose(gettext("Not saved: %(reason)s"), { reason: explain(error) }));
      }
    }
  }

  #send(fields) {
    return post(this.page.vote, this.page.token, [["pair", this.#pair], ...fields]);
  }

  // --- showing ------------------------------------------------------------------------------------------------------

  async #stream(name, question, signal) {
    let problem = null;
    try {
      const response = await askFor(`${this.page.draw}${this.#pair}/${name}/`, this.page.token, question, signal);
      await showAnswer(response, this.sides[name].querySelector(".answer"));
    } catch (error) {
      problem = error;
    }
    this.#settle(name, problem);
  }

  #settle(name, error) {
    const side = this.sides[name], answer = side.querySelector(".answer");
    side.setAttribute("aria-busy", "false");
    showEnding(side.querySelector(".ending"), answer, error, this.#stopped);
    if (this.page.format) formatAnswer(answer, this.page.format, this.page.token);
  }

  #reveal(sides) {
    sides.forEach(({ version, in_use, words }, number) => {
      const count = compose(ngettext("%(words)s word", "%(words)s words", words), { words });
      const text = `${version}${in_use ? ` (${gettext("in use")})` : ""} · ${count}`;
      Object.values(this.sides)[number].querySelector(".version").textContent = text;
    });
  }

  #become(state) {
    this.#state = state;
    this.element.dataset.choice = this.isOpen ? "" : this.#choice;
    this.#part(".votes").hidden = !this.isOpen;
    this.#part(".undo").hidden = !["decided", "saved", "skipped"].includes(state);
    this.#part(".rewrite").hidden = state !== "saved";
    this.element.dataset.state = state;
  }

  #reopen(text) {
    this.#choice = "";
    this.#become("open");
    this.#say(text);
    this.page.changed(this);
  }

  #makeVoid(text) {
    this.#become("void");
    this.#say(text);
    this.page.changed(this);
  }

  #showEdit(text) {
    this.#part(".edited").hidden = !text;
    this.#part(".edited .text").textContent = text;
  }

  #closeEditor() {
    this.#part(".editor").hidden = true;
    this.element.focus({ preventScroll: true });
  }

  #isComplete() {
    return Object.values(this.sides).every((side) => side.getAttribute("aria-busy") === "false");
  }

  #answerOf(name) {
    return textOf(this.sides[name].querySelector(".answer"));
  }

  #part(selector) {
    return this.element.querySelector(selector);
  }

  #say(text) {
    this.#part(".saved").textContent = text;
  }
}
