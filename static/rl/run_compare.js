/* Several runs on one chart: a line each of the measurement that is chosen. */

import { Chart } from "./chart.js";
import { fetched } from "./news.js";
import { compose } from "./words.js";

const BATCH = 5000;
const DASHES = [[], [8, 5], [2, 4], [12, 4, 2, 4], [4, 3], [1, 3]];
const rows = [...document.querySelectorAll("[data-progress]")];
const select = document.getElementById("compare-metric"), status = document.getElementById("compare-status");
const text = (number) => (number == null ? "–" : String(Number(number.toPrecision(4))));
let chart = null, runs = [];

async function read(row) {
  const points = [];
  for (;;) {
    const news = await fetched(`${row.dataset.progress}?after=${points.length ? points.at(-1)[0] : -1}`);
    points.push(...news.points);
    if (news.points.length < BATCH) return { row, points };
  }
}

function fillSelect() {
  const names = [...new Set(runs.flatMap(({ points }) => points.flatMap(([, metrics]) => Object.keys(metrics))))].sort();
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  select.value = names.find((name) => name.includes("loss")) ?? names[0] ?? "";
  select.disabled = names.length < 2;
  return names.length > 0;
}

function draw() {
  const metric = select.value;
  const steps = [...new Set(runs.flatMap(({ points }) => points.map(([step]) => step)))].sort((a, b) => a - b);
  const lines = runs.map(({ points }) => new Map(points.map(([step, metrics]) => [step, metrics[metric] ?? null])));
  chart?.remove();
  chart = new Chart(document.getElementById("compare-chart"), {
    height: 320,
    x: { axis: gettext("step"), label: gettext("Step") },
    axes: [{ scale: "y", label: metric }],
    scales: {},
    series: runs.map(({ row }, number) => ({
      label: compose(gettext("run %(run)s"), row.dataset), scale: "y", dash: DASHES[number], value: (plot, value) => text(value),
    })),
  });
  chart.show([steps, ...lines.map((line) => steps.map((step) => line.get(step) ?? null))]);
  lines.forEach((line, number) => {
    const known = [...line.values()].filter((value) => value !== null);
    runs[number].row.querySelector("[data-first]").textContent = text(known[0]);
    runs[number].row.querySelector("[data-last]").textContent = text(known.at(-1));
  });
}

async function show() {
  try {
    runs = await Promise.all(rows.map(read));
  } catch (error) {
    status.textContent = compose(gettext("The measurements could not be read: %(reason)s."), { reason: error.message });
    return;
  }
  if (!fillSelect()) status.textContent = gettext("No measurement yet.");
  else draw();
}

select?.addEventListener("change", draw);
if (rows.length) show();
