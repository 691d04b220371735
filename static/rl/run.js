/* The page of one training run: asks every two seconds what is new, while the run goes on and somebody looks. */

import { Chart } from "./chart.js";
import { News, fetched } from "./news.js";
import { showSuccess } from "./success.js";
import { compose } from "./words.js";

const $ = (id) => document.getElementById(id);
const page = $("run");
const TABLE_ROWS = 200, BATCH = 5000;
const ACTIVE = ["queued", "running"];
const STATES = {
  queued: gettext("queued"), running: gettext("running"), succeeded: gettext("succeeded"), failed: gettext("failed"),
  cancelled: gettext("cancelled"),
};
const PROGRESS = {
  done: gettext("done"), now: gettext("now"), waiting: gettext("waiting"), stopped: gettext("stopped"), skipped: gettext("skipped"),
};
const STAYS = "stays" in page.dataset; // beside something that must not be loaded anew
const DASHES = [[], [8, 5]];

let points = []; // [step, {metric: number or null}], by step
let attempt = null, series = [], chart = null;

// --- asking ----------------------------------------------------------------------------------------------------------

const news = new News({
  every: 2000, slowest: 30000, status: $("run-status"),
  mayCome: () => ACTIVE.includes(page.dataset.state),
  ask: () => fetched(`${page.dataset.progress}?after=${points.length ? points.at(-1)[0] : -1}`),
  isOther: (found) => !STAYS && found.state !== page.dataset.state,
  take: (found) => {
    update(found);
    if (STAYS) follow(found);
    return found.points.length === BATCH;
  },
});

// --- showing ---------------------------------------------------------------------------------------------------------

function update(news) {
  $("run-stage").textContent = news.stage;
  $("run-progress").max = news.total_steps || 1;
  $("run-progress").value = news.step;
  $("run-steps").textContent = compose(gettext("%(step)s of %(total_steps)s steps"), news);
  $("run-eta").textContent = news.eta_seconds === null ? "" : compose(gettext("about %(duration)s left of %(stage)s"), { duration: duration(news.eta_seconds), stage: news.stage });
  if ($("run-line")) showLine(news.line);
  showLog(news.log_tail);
  showSuccess(news.success);
  addPoints(news);
}

function follow(found) {
  const ends = ACTIVE.includes(page.dataset.state) && !ACTIVE.includes(found.state);
  page.dataset.state = found.state;
  $("run-state").textContent = STATES[found.state];
  if (ends) page.dispatchEvent(new CustomEvent("ended", { detail: found }));
}

function showLine(steps) {
  [...$("run-line").children].forEach((step, number) => {
    step.className = `stage-${steps[number]}`;
    step.lastElementChild.textContent = PROGRESS[steps[number]];
    if (steps[number] === "now") step.ariaCurrent = "step";
    else step.removeAttribute("aria-current");
  });
}

function duration(seconds) {
  if (seconds < 90) return `${seconds} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function showLog(text) {
  const log = $("run-log");
  if (!text || text === log.textContent) return;
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  $("run-log-card").hidden = false;
  log.textContent = text;
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function addPoints(news) {
  if (attempt !== null && news.attempt !== attempt) {
    // A new attempt does some steps again: forget all, and have them sent from the beginning.
    attempt = news.attempt;
    points = [];
    return;
  }
  attempt = news.attempt;
  if (!news.points.length) return;
  points.push(...news.points);
  $("run-no-points").hidden = true;
  draw();
  fillTable();
}

// --- the chart -------------------------------------------------------------------------------------------------------

const names = () => [...new Set(points.flatMap(([, metrics]) => Object.keys(metrics)))].sort();

function chosen() {
  // What was held out has few points, one a pass, and stands behind the figure of each step.
  const isFew = (name) => name.startsWith("held_out");
  const inOrder = names().sort((one, other) => isFew(one) - isFew(other));
  const of = (word, scale) => inOrder.filter((name) => name.includes(word)).slice(0, 2).map((name, n) => ({
    label: name, scale, dash: DASHES[n], points: isFew(name), value: (plot, number) => (number == null ? "–" : number.toPrecision(4)),
  }));
  const shares = of("accurac", "accuracy").map((one) => ({ ...one, dash: one.dash.length ? [2, 4] : [4, 3] }));
  const right = of("right", "accuracy").filter((one) => one.label === "right").map((one) => ({ ...one, points: true })); // few
  return [...of("loss", "loss"), ...shares, ...right];
}

function draw() {
  const wanted = chosen();
  if (!wanted.length) return;
  if (!chart || wanted.map((one) => one.label).join() !== series.map((one) => one.label).join()) {
    chart?.remove();
    series = wanted;
    chart = new Chart($("run-chart"), {
      height: 300,
      x: { axis: gettext("step"), label: gettext("Step") },
      axes: axes(wanted),
      scales: { accuracy: { range: () => [0, 1.02] } },
      series: wanted,
    });
  }
  chart.show([points.map(([step]) => step), ...series.map(({ label }) => points.map(([, metrics]) => metrics[label] ?? null))]);
}

function axes(wanted) {
  const scales = ["loss", "accuracy"].filter((scale) => wanted.some((one) => one.scale === scale));
  return scales.map((scale) => ({ scale, label: scale }));
}

// --- the table -------------------------------------------------------------------------------------------------------

function row(texts, tag) {
  const line = document.createElement("tr");
  line.append(...texts.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
  return line;
}

function fillTable() {
  const columns = names(), table = $("run-table");
  const text = (number) => (number == null ? "–" : String(Number(number.toPrecision(5))));
  table.tHead.replaceChildren(row([gettext("step"), ...columns], "th"));
  const newest = points.slice(-TABLE_ROWS).reverse();
  table.tBodies[0].replaceChildren(...newest.map(([step, metrics]) => row([step, ...columns.map((name) => text(metrics[name]))], "td")));
}

news.poll();
