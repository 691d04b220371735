/* Asks again and again what is new, while there may be something and somebody looks. */

import { compose } from "./words.js";

/** What is at an address of this site, `as` JSON or as text. */
export async function fetched(address, as = "json") {
  const response = await fetch(address, { redirect: "manual" });
  if (!response.ok) throw new Error(response.status ? compose(gettext("the server answered %(status)s"), response) : gettext("you are signed out"));
  return response[as]();
}

export class News {
  /** `every` and `slowest`: milliseconds between two questions, and where the server fails. `mayCome`: whether there may be
      news. `isOther`: of what `ask` gave, whether the page must be loaded anew. `take` shows it, and is true where more is
      there at once. `status`: the element that says why there are no news. */
  constructor({ every, slowest, status, mayCome, ask, isOther, take }) {
    Object.assign(this, { every, slowest, status, mayCome, ask, isOther, take, timer: null, wait: every });
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.timer);
      this.timer = null;
      if (!document.hidden && mayCome()) this.poll();
    });
  }

  async poll() {
    this.timer = null;
    try {
      const news = await this.ask();
      if (this.isOther(news)) return location.reload();
      this.wait = this.every;
      this.status.textContent = "";
      if (this.take(news)) return this.poll();
    } catch (error) {
      this.wait = Math.min(this.wait * 2, this.slowest);
      this.status.textContent = compose(gettext("No news: %(reason)s."), { reason: error.message }) + (this.mayCome() ? ` ${gettext("Trying again.")}` : "");
    }
    if (this.timer === null && !document.hidden && this.mayCome()) this.timer = setTimeout(() => this.poll(), this.wait);
  }
}
