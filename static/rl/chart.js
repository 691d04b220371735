/* Charts of uPlot in the page's own colours: drawn again when the width or the colour scheme changes.

   Series: {label, scale, kind: "line" | "bars", dash}. The n-th takes its colour from the CSS variable --chart-n. */

const FONT = "12px system-ui, sans-serif";

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
    const { series, axes, scales, x } = this.#options;
    this.#plot = new window.uPlot({
      ...this.#size(),
      scales: { ...scales, x: { time: x.time ?? false, ...(x.range ? { range: x.range } : {}) } },
      ...(x.time ? { tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "UTC") } : {}),
      axes: [
        { stroke: ink, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, label: x.axis, labelFont: FONT },
        ...axes.map((axis, n) => ({
          stroke: ink, font: FONT, labelFont: FONT, size: 56, ticks: { stroke: grid }, side: n === 0 ? 3 : 1,
          grid: { show: n === 0, stroke: grid, width: 1 }, ...axis,
        })),
      ],
      series: [{ label: x.label, value: x.value }, ...series.map((one, n) => this.#series(one, colour(`--chart-${n % 4 + 1}`)))],
    }, this.#data, this.#element);
  }

  #series({ label, scale, kind, dash, value }, colour) {
    const bars = kind === "bars";
    return {
      label, scale, dash, value, stroke: colour, width: 2, spanGaps: true, points: { show: false },
      ...(bars ? { fill: colour, width: 0, paths: window.uPlot.paths.bars({ size: [0.7, 40], radius: 0.2 }) } : {}),
    };
  }
}
