/* Charts of uPlot in the page's own colours: drawn again when the width or the colour scheme changes.

   Series: {label, scale, kind: "line" | "bars", dash, points: true | false, colour}. The n-th takes its colour from the CSS
   variable --chart-n, or from the one that it names. Bands: [upper, lower], numbers of series from 1, filled by --chart-band. */

const FONT = "12px system-ui, sans-serif";
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 1000000];
const orDash = (plot, number) => number ?? "–"; // nothing is pointed at
const isoDay = (plot, ticks) => ticks.map((seconds) => new Date(seconds * 1000).toISOString().slice(5, 10));
const shortest = (plot, ticks) => ticks.map((number) => String(Number(number.toPrecision(6)))); // 0.6925 stays apart from 0.693

export class Chart {
  #element;
  #options;
  #data;
  #plot = null;

  constructor(element, options) {
    this.#element = element;
    this.#options = options;
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    new MutationObserver(() => this.#draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  /** The x values and one list of the same length per series; null is a gap. */
  show(data) {
    this.#data = data;
    if (this.#plot) this.#plot.setData(data);
    else this.#draw();
  }

  remove() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#data = null;
  }

  #size() {
    return { width: Math.max(240, this.#element.clientWidth), height: this.#options.height ?? 240 };
  }

  #draw() {
    if (!this.#data) return;
    this.#plot?.destroy();
    const style = getComputedStyle(this.#element), colour = (name) => style.getPropertyValue(name).trim();
    const ink = colour("--chart-ink"), grid = colour("--chart-grid");
    const { series, axes, scales, x, bands = [] } = this.#options;
    this.#plot = new window.uPlot({
      ...this.#size(),
      scales: { ...scales, x: { time: x.time ?? false, ...(x.range ? { range: x.range } : {}) } },
      ...(x.time ? { tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "UTC") } : {}),
      axes: [
        {
          stroke: ink, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, label: x.axis, labelFont: FONT,
          ...(x.time ? { values: isoDay } : { incrs: WHOLE, values: shortest }),
        },
        ...axes.map((axis, n) => ({
          stroke: ink, font: FONT, labelFont: FONT, size: 56, ticks: { stroke: grid }, side: n === 0 ? 3 : 1,
          grid: { show: n === 0, stroke: grid, width: 1 }, values: shortest, ...axis,
        })),
      ],
      series: [{ label: x.label, value: x.value ?? orDash }, ...series.map((one, n) => this.#series(one, colour(one.colour ?? `--chart-${n % 4 + 1}`)))],
      bands: bands.map((pair) => ({ series: pair, fill: colour("--chart-band") })),
    }, this.#data, this.#element);
  }

  #series({ label, scale, kind, dash, value, points = false }, colour) {
    const bars = kind === "bars";
    return {
      label, scale, dash, value: value ?? orDash, stroke: colour, width: 2, spanGaps: true, points: { show: points },
      ...(bars ? { fill: colour, width: 0, paths: window.uPlot.paths.bars({ size: [0.7, 40], radius: 0.2 }) } : {}),
    };
  }
}
