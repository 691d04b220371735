/* Draws the table of ratings per day as bars. */

import { Chart } from "./chart.js";

const HALF_DAY = 43200; // room for the first and the last bar
const table = document.getElementById("days-table");

if (table) {
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const chart = new Chart(document.getElementById("days-chart"), {
    height: 200,
    x: {
      time: true, label: "Day", range: (plot, first, last) => [first - HALF_DAY, last + HALF_DAY],
      value: (plot, seconds) => seconds == null ? "–" : new Date(seconds * 1000).toISOString().slice(0, 10),
    },
    axes: [{ scale: "ratings", size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000] }],
    scales: { ratings: { range: (plot, low, high) => [0, Math.max(5, high * 1.1)] } },
    series: [{ label: "Ratings", scale: "ratings", kind: "bars" }],
  });
  chart.show([rows.map(([day]) => Date.parse(`${day}T00:00:00Z`) / 1000), rows.map(([, count]) => Number(count.replaceAll(",", "")))]);
}
