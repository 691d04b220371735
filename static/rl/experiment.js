/* The page of one experiment: draws the history of its intervals, and asks every ten seconds what is new while the
   experiment runs and somebody looks. */

import { Chart } from "./chart.js";
import { News, fetched } from "./news.js";

const $ = (id) => document.getElementById(id);
const page = $("experiment");
const effect = Number(page.dataset.effect), counted = page.dataset.counted;
const isShare = ["thumbs_up", "win_rate", "error_rate"].includes(page.dataset.metric);
const charts = new Map(); // arm to its chart

// --- asking ----------------------------------------------------------------------------------------------------------

const news = new News({
  every: 10000, slowest: 60000, status: $("experiment-status"),
  mayCome: () => page.dataset.state === "running",
  ask: () => fetched(page.dataset.look),
  isOther: (found) => found.state !== page.dataset.state || stopped(found),
  take: update,
});

// --- showing ---------------------------------------------------------------------------------------------------------

const rowOf = (arm) => page.querySelector(`tr[data-arm="${arm.id}"]`);
const stopped = (news) => news.arms.some((arm) => rowOf(arm)?.dataset.stopped !== (arm.is_stopped ? "1" : "0"));

function say(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function update(news) {
  say($("answer"), news.answer);
  say($("reason"), news.reason);
  if ($("progress")) $("progress").value = news.progress * 100;
  say($("percent"), `${Math.round(news.progress * 100)} %`);
  if (news.predicted) say($("predicted"), String(news.predicted));
  for (const arm of news.arms) {
    for (const cell of rowOf(arm).querySelectorAll("[data-cell]")) say(cell, arm.texts[cell.dataset.cell]);
  }
  news.history.forEach(draw);
}

function shown(number) {
  if (number == null) return "–";
  const text = isShare ? `${(number * 100).toFixed(1)}` : String(Number(number.toPrecision(3)));
  return (number > 0 ? `+${text}` : text).replace("-", "−");
}

// --- the chart -------------------------------------------------------------------------------------------------------

function draw(history) {
  const { arm, observations, value, low, high } = history;
  if (!observations.length) return;
  fillTable(history);
  if (page.dataset.metric === "error_rate") return;
  $(`empty-${arm}`).hidden = true;
  $(`key-${arm}`).hidden = false;
  if (!charts.has(arm)) charts.set(arm, chartOf(arm));
  const line = (at) => observations.map(() => at);
  charts.get(arm).show([observations, value, high, low, line(0), line(effect), line(-effect)]);
}

function chartOf(arm) {
  const said = { scale: "difference", value: (plot, number) => shown(number) };
  const dotted = { ...said, dash: [2, 4], colour: "--chart-ink" };
  return new Chart($(`chart-${arm}`), {
    height: 300,
    x: { axis: counted, label: counted },
    axes: [{ scale: "difference", label: isShare ? gettext("difference, points") : gettext("difference"), values: (plot, ticks) => ticks.map(shown) }],
    scales: { difference: { range: inView } },
    bands: [[2, 3]],
    series: [
      { ...said, label: gettext("difference"), colour: "--chart-1" },
      { ...said, label: gettext("to"), dash: [6, 4], colour: "--chart-1" },
      { ...said, label: gettext("from"), dash: [6, 4], colour: "--chart-1" },
      { ...dotted, label: gettext("none") }, { ...dotted, label: gettext("matters, above") }, { ...dotted, label: gettext("matters, below") },
    ],
  });
}

/** The first intervals are wide: they may leave the picture. The newest may not, nor the smallest difference that matters. */
function inView(plot, low, high) {
  const newest = [2, 3].map((series) => Math.abs(plot.data?.[series]?.at(-1) ?? 0));
  const most = Math.max(effect * 5, ...newest.map((end) => end * 1.1)), room = effect * 1.25;
  return [Math.max(Math.min(low ?? 0, -room), -most), Math.min(Math.max(high ?? 0, room), most)];
}

// --- the table -------------------------------------------------------------------------------------------------------

function fillTable({ arm, observations, value, low, high }) {
  const rows = observations.map((count, n) => [String(count), ...[value, low, high].map((of) => shown(of[n]))]);
  $(`table-${arm}`).tBodies[0].replaceChildren(...rows.reverse().map((texts) => {
    const line = document.createElement("tr");
    line.append(...texts.map((text) => Object.assign(document.createElement("td"), { className: "number", textContent: text })));
    return line;
  }));
}

news.poll();
