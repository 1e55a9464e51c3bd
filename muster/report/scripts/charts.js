// @ts-check

// The kinds of charts. Each answers how high it is, draws itself, names what is under a point, and gives its rows.

/** @typedef {{left: number, right: number, top: number, bottom: number}} Box */
/** @typedef {{words: string[], x: number, y: number, time?: number}} Under */
/**
 * @typedef {{height: (width: number) => number, draw: (surface: Surface, width: number, height: number, colour: (role: string) => string) => void,
 *   under: (x: number, y: number, width: number, height: number) => Under | null, rows: () => (string | number)[][],
 *   times?: (width: number, height: number) => Box & {from: number, to: number}}} Chart
 */
/** A line or area of a run: its values, each over an equal part of the axis. @typedef {{run: number, name: string, values: Float64Array, end?: number}} Series */

const COLOURS = 6;
/** @param {number} run */
const roleOf = (run) => `series-${(run % COLOURS) + 1}`;
/** @param {number} run */
const dashOf = (run) => (Math.floor(run / COLOURS) % 2 ? [5, 3] : []);

/** Round steps that divide up to a greatest value into about so many parts. @param {number} most @param {number} parts */
function roundSteps(most, parts) {
  const rough = Math.max(most, 1e-9) / parts;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * size).find((one) => one >= rough) ?? 10 * size;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
}

/** @param {Surface} to @param {Box} box @param {number} from @param {number} until @param {(role: string) => string} colour */
function timeAxis(to, box, from, until, colour) {
  const [unit, name] = timeUnit(until - from);
  const room = box.right - box.left;
  const first = from / unit;
  const steps = roundSteps((until - from) / unit, Math.max(2, Math.floor(room / 90)));
  const step = steps.length > 1 ? steps[1] : (until - from) / unit;
  for (let tick = Math.ceil(first / step - 1e-9) * step; tick * unit <= until + 1e-6 && step > 0; tick += step) {
    const x = box.left + ((tick * unit - from) / (until - from)) * room;
    to.line([[x, box.bottom], [x, box.bottom + 4]], { stroke: colour("quiet") });
    to.text(String(Number(tick.toFixed(6))), x, box.bottom + 17, { fill: colour("quiet"), align: x > box.right - 20 ? "right" : "center" });
  }
  to.text(`${name[0].toUpperCase()}${name.slice(1)} since the first submission`, (box.left + box.right) / 2, box.bottom + 34, { fill: colour("quiet"), align: "center" });
}

/** The names of runs with their strokes, in rows; the height that they take. @param {Surface | null} to @param {{run: number, name: string}[]} series @param {number} width @param {(role: string) => string} colour */
function legend(to, series, width, colour) {
  if (series.length < 2) return 4;
  let [x, y] = [0, 10];
  for (const { run, name } of series) {
    const room = 32 + widthOf(name, LABEL_SIZE);
    if (x && x + room > width) [x, y] = [0, y + 18];
    to?.line([[x, y], [x + 20, y]], { stroke: colour(roleOf(run)), width: 2.5, dash: dashOf(run) });
    to?.text(name, x + 26, y + 4, { fill: colour("ink"), width: width - 26 });
    x += room + 14;
  }
  return y + 18;
}

const LOG_TICKS = [
  [1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"], [3600, "1 h"], [18000, "5 h"], [86400, "1 day"], [864000, "10 days"], [8640000, "100 days"], [86400000, "1000 days"],
];

/** The share of jobs done within a time, on a logarithmic axis. @param {Series[]} series @param {number} most @returns {Chart} */
function distribution(series, most) {
  const box = (/** @type {number} */ width, /** @type {number} */ height) => ({ left: 46, right: width - 12, top: legend(null, series, width, () => "") + 6, bottom: height - 24 });
  const edge = (/** @type {number} */ bin) => Math.exp((bin / LOG_BINS) * Math.log(most));
  const at = (/** @type {Box} */ { left, right }, /** @type {number} */ seconds) => left + (Math.log(Math.max(seconds, 1)) / Math.log(most)) * (right - left);
  return {
    height: () => 300,
    draw(to, width, height, colour) {
      legend(to, series, width, colour);
      const area = box(width, height);
      const y = (/** @type {number} */ share) => area.bottom - share * (area.bottom - area.top);
      for (const share of [0, 0.25, 0.5, 0.75, 1]) {
        to.line([[area.left, y(share)], [area.right, y(share)]], { stroke: colour("line") });
        to.text(`${100 * share} %`, area.left - 6, y(share) + 4, { fill: colour("quiet"), align: "right" });
      }
      let free = -Infinity;
      for (const [seconds, name] of LOG_TICKS) {
        const x = at(area, Number(seconds));
        if (x > area.right + 1 || x < free) continue;
        const words = seconds === 1 ? `≤ ${name}` : String(name);
        free = x + 6.5 * words.length + 14;
        to.line([[x, area.bottom], [x, area.bottom + 4]], { stroke: colour("quiet") });
        to.text(words, x, area.bottom + 17, { fill: colour("quiet"), align: x > area.right - 24 ? "right" : x < area.left + 20 ? "left" : "center" });
      }
      for (const { run, values } of series) {
        /** @type {number[][]} */
        const points = [];
        values.forEach((share, bin) => {
          const x = at(area, edge(bin));
          if (points.length) points.push([x, points[points.length - 1][1]]);
          points.push([x, y(share)]);
        });
        if (Number.isFinite(values[0])) to.line(points, { stroke: colour(roleOf(run)), width: 2, dash: dashOf(run) });
      }
    },
    under(x, y, width, height) {
      const area = box(width, height);
      if (x < area.left || x > area.right || y < area.top || y > area.bottom) return null;
      const bin = Math.round(((x - area.left) / (area.right - area.left)) * LOG_BINS);
      return { words: [`Within ${duration(edge(bin))}`, ...series.map(({ name, values }) => `${name}: ${percent(values[bin])} of jobs`)], x, y };
    },
    rows: () => [["scheduler", "seconds", "share_of_jobs"], ...series.flatMap(({ name, values }) => Array.from(values, (share, bin) => [name, Number(edge(bin).toPrecision(4)), Number(share.toFixed(6))]))],
  };
}

/**
 * Quantities over time: lines above each other, or one panel for each run.
 * @param {Series[]} series @param {number} from @param {number} to @param {{panels: boolean, most: number, show: (value: number) => string, axis: string, unit: string}} how
 * @returns {Chart}
 */
function overTimeChart(series, from, to, { panels, most, show, axis, unit }) {
  const panel = series.length > 4 ? 62 : 92;
  const head = (/** @type {number} */ width) => (panels ? 4 : legend(null, series, width, () => "") + 6);
  const box = (/** @type {number} */ width, /** @type {number} */ height) => ({ left: 52, right: width - 10, top: head(width), bottom: height - 42 });
  // As in the table of figures, a run that ends before the axis does counts until its own end.
  const mean = (/** @type {Series} */ { values, end = to }) => (values.reduce((sum, one) => sum + one, 0) / values.length) * ((to - from) / Math.max(Math.min(end, to) - from, 1e-9));
  return {
    height: (width) => (panels ? (series.length === 1 ? 220 : series.length * panel) + 46 : 300 + head(width)),
    draw(surface, width, height, colour) {
      if (!panels) legend(surface, series, width, colour);
      const area = box(width, height);
      const each = panels ? (area.bottom - area.top) / series.length : area.bottom - area.top;
      const ticks = panels ? [0, most / 2, most] : roundSteps(most, 5);
      series.forEach((one, at) => {
        const { run, name, values } = one;
        const top = area.top + (panels ? at * each + 24 : 0);
        const bottom = panels ? area.top + (at + 1) * each : area.bottom;
        const y = (/** @type {number} */ value) => bottom - (value / Math.max(most, 1e-9)) * (bottom - top);
        if (panels || at === 0)
          for (const tick of ticks) {
            surface.line([[area.left, y(tick)], [area.right, y(tick)]], { stroke: colour("line") });
            surface.text(show(tick), area.left - 6, y(tick) + 4, { fill: colour("quiet"), align: "right" });
          }
        if (panels) surface.text(`${name} · ${percent(Math.min(1, mean(one)))} in the mean`, area.left, top - 6, { fill: colour("ink"), width: area.right - area.left });
        /** @type {number[][]} */
        const points = [];
        const step = (area.right - area.left) / values.length;
        values.forEach((value, bin) => points.push([area.left + bin * step, y(value)], [area.left + (bin + 1) * step, y(value)]));
        if (panels) surface.area([[area.left, bottom], ...points, [area.right, bottom]], colour(roleOf(run)));
        else surface.line(points, { stroke: colour(roleOf(run)), width: 1.5, dash: dashOf(run) });
      });
      timeAxis(surface, area, from, to, colour);
    },
    times: (width, height) => ({ ...box(width, height), from, to }),
    under(x, y, width, height) {
      const area = box(width, height);
      if (x < area.left || x > area.right || y < area.top || y > area.bottom) return null;
      const share = Math.min((x - area.left) / (area.right - area.left), 0.999999);
      const time = from + share * (to - from);
      return { words: [`After ${duration(time)}`, ...series.map(({ name, values }) => `${name}: ${show(values[Math.floor(share * values.length)])} ${axis}`)], x, y, time };
    },
    rows: () => [["scheduler", "from_seconds", unit], ...series.flatMap(({ name, values }) => Array.from(values, (value, bin) => [name, Number((from + (bin / values.length) * (to - from)).toFixed(3)), Number(value.toPrecision(6))]))],
  };
}

/**
 * Bars of means in seconds, a group of bars for each group.
 * @param {{group: string, bars: {run: number, name: string, value: number, jobs: number}[]}[]} groups @returns {Chart}
 */
function bars(groups) {
  const shown = groups.filter((group) => group.bars.some((bar) => Number.isFinite(bar.value)));
  const most = Math.max(1e-9, ...shown.flatMap((group) => group.bars.map((bar) => (Number.isFinite(bar.value) ? bar.value : 0))));
  const [unit, unitName] = commonUnit(shown.flatMap((group) => group.bars.map((bar) => bar.value)));
  const columns = (/** @type {number} */ width) => (width > 800 && shown.length > 4 ? 3 : width > 700 && shown.length > 1 ? 2 : 1);
  const heads = shown.length > 1 || groups.some((group) => group.group !== "");
  const longest = Math.max(1, ...shown.flatMap((group) => group.bars.map((bar) => widthOf(bar.name, LABEL_SIZE))));
  /** Names that would leave too little to the bars stand above them, in as many lines as they need. @param {number} width */
  const places = (width) => {
    const each = (width + 18) / columns(width);
    const beside = longest + 10 <= 0.42 * each;
    const label = beside ? longest + 10 : 0;
    const places = [];
    let top = 0;
    let end = 0;
    for (const [at, group] of shown.entries()) {
      if (at % columns(width) === 0) top = end;
      const head = heads ? wrapped(`${group.group} · ${counted(group.bars[0].jobs, "job")}`, each - 18, true) : [];
      let y = top + (heads ? 11 + 15 * head.length : 4);
      for (const bar of group.bars) {
        const name = beside ? [bar.name] : wrapped(bar.name, each - 18);
        if (!beside) y += 15 * name.length;
        places.push({ group, bar, name, head: head.splice(0), beside, label, x: (at % columns(width)) * each, y, width: Math.max(4, each - 18 - label - 64) });
        y += beside ? 20 : 24;
      }
      end = Math.max(end, y + (heads ? 8 : 4));
    }
    return { places, height: end };
  };
  return {
    height: (width) => Math.max(40, places(width).height),
    draw(to, width, _, colour) {
      if (!shown.length) to.text("No job that completed is left by the filter.", 0, 20, { fill: colour("quiet") });
      for (const { bar, name, head, beside, label, x, y, width: room } of places(width).places) {
        const above = y - 9 - (beside ? 0 : 15 * name.length);
        for (const [line, words] of head.entries()) to.text(words, x, above - 15 * (head.length - 1 - line), { fill: colour("ink"), bold: true });
        if (beside) to.text(bar.name, x + label - 8, y + 13, { fill: colour("ink"), align: "right" });
        else for (const [line, words] of name.entries()) to.text(words, x, y - 3 - 15 * (name.length - 1 - line), { fill: colour("ink") });
        const length = Number.isFinite(bar.value) ? (bar.value / most) * room : 0;
        to.rect(x + label, y + 2, Math.max(length, 1), 15, colour(roleOf(bar.run)));
        to.text(Number.isFinite(bar.value) ? `${inUnit(bar.value, unit)} ${unitName}` : "–", x + label + length + 5, y + 14, { fill: colour("ink") });
      }
    },
    under(x, y, width) {
      const found = places(width).places.find((place) => x >= place.x && x < place.x + place.label + place.width + 64 && y >= place.y - (place.beside ? 0 : 15 * place.name.length) && y < place.y + 20);
      return found ? { words: [`${found.group.group ? `${found.group.group}: ` : ""}${found.bar.name}`, `mean ${duration(found.bar.value)} of ${counted(found.bar.jobs, "job")}`], x, y } : null;
    },
    rows: () => [["group", "scheduler", "jobs", "mean_seconds"], ...shown.flatMap(({ group, bars: all }) => all.map((bar) => [group, bar.name, bar.jobs, Number.isFinite(bar.value) ? Number(bar.value.toFixed(3)) : ""]))],
  };
}
