/* A page that stays open notices what begins or ends by itself, such as a run of the online learner: it is asked for again, and
   each part whose `data-live` has changed takes the place of the old one. */

import { News, fetched } from "./news.js";

const EVERY = 15000, SLOWEST = 120000;

/** The page as it would be shown now. */
export async function askAnew() {
  return new DOMParser().parseFromString(await fetched(location.href, "text"), "text/html");
}

/** Asks after a while, and again and again. `take` shows what came. */
export function lookAgain(status, take) {
  const news = new News({ every: EVERY, slowest: SLOWEST, status, mayCome: () => true, ask: askAnew, isOther: () => false, take });
  news.timer = setTimeout(() => news.poll(), EVERY);
}

/** Somebody at work in a part keeps it until they leave it. */
function replaceParts(found) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = found.getElementById(part.id);
    if (!other || other.dataset.live === part.dataset.live || part.contains(document.activeElement)) continue;
    const open = [...part.querySelectorAll("details")].map((details) => details.open);
    part.replaceWith(other);
    other.querySelectorAll("details").forEach((details, number) => { details.open = open[number] ?? false; });
  }
}

const status = document.getElementById("live-status");
if (status) lookAgain(status, replaceParts);
