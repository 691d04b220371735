/* What one says of an answer on the page under /try/: a thumb; of an answer of a set one clicks the right one, of one that is
   JSON one changes the fields. */

import { AnswerFields } from "./answer_fields.js";
import { ask, post } from "./ask.js";
import { explain, readAlong } from "./turns.js";
import { compose } from "./words.js";

const ANY = "00000000-0000-0000-0000-000000000000"; // stands for the trace in an address
const percent = (share) => (share === null ? "" : `${Math.round(100 * share)} %`);

export class OneAnswer {
  #isBusy = false;
  #isChosen = false; // the answer was chosen by what people corrected of like messages
  #fields = null;

  /** `page`: {form, rating, token, asks, counted(news)}. */
  constructor(turn, page) {
    Object.assign(this, { turn, page });
    this.#part(".thumbs").addEventListener("click", ({ target }) => this.#press(target.closest(".thumb"), "value"));
    this.#part(".values").addEventListener("click", ({ target }) => this.#press(target.closest("button"), "text"));
    this.#part(".correct button").addEventListener("click", () => this.#save());
    this.#part(".fields").addEventListener("input", () => this.#showButton());
    this.#part(".fields").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing && event.target.matches("input")) this.#save();
    });
  }

  /** Once the answer is whole. */
  async offer() {
    readAlong(() => { this.#part(".thumbs").hidden = false; });
    if (!this.page.asks) return;
    try {
      const { form, values, is_chosen: isChosen } = await ask(this.page.form.replace(ANY, this.turn.dataset.trace));
      this.#isChosen = isChosen;
      readAlong(() => {
        if (form?.kind === "closed") this.#showValues(form.answer, values);
        if (form?.kind === "structured") this.#showFields(form.fields);
      });
    } catch (error) {
      this.#say(compose(gettext("It cannot be corrected here: %(reason)s"), { reason: explain(error) }));
    }
  }

  #showValues(answer, values) {
    const chip = this.#part(".answer"), share = values.find(({ text }) => text === answer)?.share ?? null;
    if (answer) chip.replaceChildren(Object.assign(document.createElement("span"), { className: "chip", textContent: answer }));
    if (share !== null) chip.append(` ${compose(gettext("%(share)s sure"), { share: percent(share) })}`);
    const buttons = values.filter(({ text }) => text !== answer).map((other) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", value: other.text, textContent: other.text, dir: "auto", ariaPressed: "false" });
      if (other.share !== null) button.append(" ", Object.assign(document.createElement("span"), { className: "soft", textContent: percent(other.share) }));
      return button;
    });
    this.#part(".values").append(...buttons);
    this.#part(".values").hidden = false;
  }

  #showFields(fields) {
    this.#fields = new AnswerFields(this.#part(".fields"));
    this.#fields.show(fields);
    this.#part(".correct").hidden = false;
  }

  #showButton() {
    this.#part(".correct button").disabled = !this.#fields.isChanged;
  }

  #press(button, name) {
    if (!button) return;
    this.#send(button.ariaPressed === "true" ? [["action", "retract"]] : [[name, button.value]]);
  }

  #save() {
    try {
      const text = this.#fields.text;
      if (text !== null) this.#send([["text", text]]);
    } catch (error) { // a field that holds no number, say
      this.#say(error.message);
    }
  }

  async #send(wish) {
    if (this.#isBusy) return;
    this.#isBusy = true;
    try {
      const news = await post(this.page.rating, this.page.token, [["trace", this.turn.dataset.trace], ...wish]);
      this.#show(news);
      this.page.counted(news);
    } catch (error) {
      this.#say(compose(gettext("Not saved: %(reason)s"), { reason: explain(error) }));
    } finally {
      this.#isBusy = false;
    }
  }

  #show({ value, text }) {
    for (const thumb of this.turn.querySelectorAll(".thumb")) thumb.ariaPressed = String(value !== null && Number(thumb.value) === value);
    for (const other of this.#part(".values").querySelectorAll("button")) other.ariaPressed = String(other.value === text);
    this.turn.classList.toggle("corrected", Boolean(text));
    if (text) this.#say(this.#isChosen ? gettext("Saved. Messages that read like this one are answered so from now on.") : gettext("Saved. The next training learns it."));
    else this.#say(value === null ? gettext("Taken back.") : gettext("Thank you, saved."));
  }

  #part(selector) {
    return this.turn.querySelector(selector);
  }

  #say(text) {
    this.#part(".saved").textContent = text;
  }
}
