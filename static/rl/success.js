/* The share of the episodes of a run that solved their task, by step: of tasks it learns from, and of tasks held out. */

import { Chart } from "./chart.js";

const percent = (plot, number) => (number == null ? "–" : `${Math.round(number * 100)} %`);
const percents = (plot, ticks) => ticks.map((number) => percent(plot, number));
let chart = null, shown = "";

/** ``rates``: {step, train, eval}, lists of one length; null is a gap. Null while there is no episode. */
export function showSuccess(rates) {
  if (!rates || JSON.stringify(rates) === shown) return;
  shown = JSON.stringify(rates);
  document.getElementById("run-success-card").hidden = false;
  chart ??= new Chart(document.getElementById("run-success"), {
    height: 240,
    x: { axis: gettext("step"), label: gettext("Step") },
    axes: [{ scale: "rate", label: gettext("solved"), values: percents }],
    scales: { rate: { range: () => [0, 1.02] } },
    series: [
      { label: gettext("learned from"), scale: "rate", value: percent },
      { label: gettext("held out"), scale: "rate", value: percent, dash: [8, 5], points: true },
    ],
  });
  chart.show([rates.step, rates.train, rates.eval]);
}
