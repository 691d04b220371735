/* Draws columns of a table of days as bars: `data-column` of a chart is the number of its column, whose head is its name. */

import { Chart } from "./chart.js";

const HALF_DAY = 43200; // room for the first and the last bar
const table = document.getElementById("days-table");
const rows = table ? [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)) : [];

for (const element of rows.length ? document.querySelectorAll(".chart[data-column]") : []) {
  const column = Number(element.dataset.column);
  const chart = new Chart(element, {
    height: 200,
    x: {
      time: true, label: gettext("Day"), range: (plot, first, last) => [first - HALF_DAY, last + HALF_DAY],
      value: (plot, seconds) => seconds == null ? "–" : new Date(seconds * 1000).toISOString().slice(0, 10),
    },
    axes: [{ scale: "count", size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000] }],
    scales: { count: { range: (plot, low, high) => [0, Math.max(5, high * 1.1)] } },
    series: [{ label: table.tHead.rows[0].cells[column].textContent, scale: "count", kind: "bars", colour: `--chart-${column}` }],
  });
  chart.show([rows.map(([day]) => Date.parse(`${day}T00:00:00Z`) / 1000), rows.map((row) => Number(row[column].replace(/\D/g, "")))]);
}
