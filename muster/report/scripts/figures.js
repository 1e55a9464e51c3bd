// @ts-check

// Figures of the jobs that the filter lets through.

const LOG_BINS = 480;
const SERIES_BINS = 400;
const SIZE_BOUNDS = [1, 2, 4, 8, 16, 32, 64];
const SIZE_NAMES = ["no GPU", "part of a GPU", "1 GPU", "2 GPUs", "3–4 GPUs", "5–8 GPUs", "9–16 GPUs", "17–32 GPUs", "33–64 GPUs", "over 64 GPUs"];

/** @param {number} gpus */
const sizeIndex = (gpus) => (gpus < 1 ? Number(gpus > 0) : 2 + SIZE_BOUNDS.filter((bound) => bound < gpus).length);

/** Three figures, grouped from a thousand on: 0.620, 21.9, 1,234. @param {number} value */
function threeFigures(value) {
  if (value === 0) return "0";
  const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(value))), 0), 4);
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** @type {[number, string, string, number][]} */
const UNITS = [
  [86400, "d", "days", 2],
  [3600, "h", "hours", 1],
  [60, "min", "minutes", 1],
  [1, "s", "seconds", 0],
];

/** In the largest unit that gives at least 1, days from two on. @param {number} seconds */
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const [unit, name] = UNITS.find(([size, , , least]) => Math.abs(seconds) >= size * least) ?? UNITS[3];
  return `${inUnit(seconds, unit)} ${name}`;
}

/** The unit in which lengths of time up to this one read best: its seconds and its name. @param {number} seconds @returns {[number, string]} */
function timeUnit(seconds) {
  const [unit, , name] = UNITS.find(([size]) => seconds >= 3 * size) ?? UNITS[3];
  return [unit, name];
}

/** The unit for lengths of time that are compared, as common_unit of muster/formatting.py: its seconds and its short name. @param {number[]} seconds @returns {[number, string]} */
function commonUnit(seconds) {
  const lengths = seconds.map(Math.abs).filter((one) => one > 0 && Number.isFinite(one));
  const most = Math.max(0, ...lengths);
  let at = Math.max(0, UNITS.findIndex(([unit]) => most >= 3 * unit));
  if (most < 3) at = UNITS.length - 1;
  while (at + 1 < UNITS.length && Math.min(...lengths) < 0.02 * UNITS[at][0] && most < 1e4 * UNITS[at + 1][0]) at++;
  return [UNITS[at][0], UNITS[at][1]];
}

/** A length of time without its unit: three figures, at most three of them decimals. @param {number} seconds @param {number} unit */
function inUnit(seconds, unit) {
  const value = seconds / unit;
  if (!Number.isFinite(value)) return "–";
  if (value > 0 && value < 0.0005) return "<0.001";
  return value > 0 && value < 0.1 ? value.toFixed(3) : threeFigures(value);
}

/** The order of names as people count, as natural_order of muster/formatting.py: vc2 before vc10. @param {string} one @param {string} other */
function naturally(one, other) {
  const [first, second] = [one, other].map((name) => name.split(/(\d+)/));
  for (let at = 0; at < Math.min(first.length, second.length); at++) {
    const [left, right] = at % 2 ? [Number(first[at]), Number(second[at])] : [first[at], second[at]];
    if (left !== right) return left < right ? -1 : 1;
  }
  return first.length - second.length || (one < other ? -1 : Number(one > other));
}

/** @param {number} share */
const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");
/** @param {number} count @param {string} thing */
const counted = (count, thing) => `${count.toLocaleString("en-US")} ${thing}${count === 1 ? "" : "s"}`;

/** @param {Run} run @param {Float64Array} values @param {Uint8Array} chosen */
function meanOf(run, values, chosen) {
  let sum = 0;
  let count = 0;
  for (let job = 0; job < chosen.length; job++)
    if (chosen[job] && run.done[job]) {
      sum += values[job];
      count++;
    }
  return { mean: count ? sum / count : NaN, count };
}

/**
 * Means by group: of each group its sum and count.
 * @param {Run} run @param {Float64Array} values @param {Uint8Array} chosen @param {ArrayLike<number>} group @param {number} groups
 */
function meansBy(run, values, chosen, group, groups) {
  const sums = new Float64Array(groups);
  const counts = new Float64Array(groups);
  for (let job = 0; job < chosen.length; job++)
    if (chosen[job] && run.done[job]) {
      sums[group[job]] += values[job];
      counts[group[job]]++;
    }
  return { means: sums.map((sum, at) => sum / counts[at]), counts };
}

/** Where times of a column lie on a logarithmic axis from 1 s to the greatest of all. @param {Float64Array} values @param {number} most */
function logBins(values, most) {
  const bins = new Uint16Array(values.length);
  const scale = LOG_BINS / Math.log(most);
  for (let job = 0; job < values.length; job++) if (values[job] > 1) bins[job] = Math.min(LOG_BINS, Math.ceil(Math.log(values[job]) * scale));
  return bins;
}

/** The share of chosen jobs at or below each edge of the axis. @param {Run} run @param {Uint16Array} bins @param {Uint8Array} chosen */
function shares(run, bins, chosen) {
  const counts = new Float64Array(LOG_BINS + 1);
  let total = 0;
  for (let job = 0; job < chosen.length; job++)
    if (chosen[job] && run.done[job]) {
      counts[bins[job]]++;
      total++;
    }
  let below = 0;
  return { shares: counts.map((count) => (below += count) / total), total };
}

/**
 * Means over equal stretches between two times of a sum of amounts, each held from since until until.
 * @param {Float64Array} since @param {Float64Array} until @param {(row: number) => number} amount @param {number} from @param {number} to
 */
function overTime(since, until, amount, from, to) {
  const steps = new Float64Array(SERIES_BINS + 1);
  const parts = new Float64Array(SERIES_BINS + 1);
  const scale = SERIES_BINS / Math.max(to - from, 1e-9);
  for (let row = 0; row < since.length; row++) {
    if (until[row] <= from || since[row] >= to) continue;
    const change = amount(row);
    if (!change) continue;
    const begin = Math.max(0, (since[row] - from) * scale);
    const end = Math.min(SERIES_BINS, (until[row] - from) * scale);
    const [first, last] = [Math.floor(begin), Math.floor(end)];
    parts[first] += change * (first + 1 - begin);
    steps[first + 1] += change;
    parts[last] -= change * (last + 1 - end);
    if (last < SERIES_BINS) steps[last + 1] -= change;
  }
  let level = 0;
  return parts.subarray(0, SERIES_BINS).map((part, bin) => Math.max(0, (level += steps[bin]) + part));
}

/**
 * The jobs whose figure fell most and rose most from one run to another, of the chosen that both completed.
 * @param {Float64Array} before @param {Float64Array} after @param {Uint8Array} chosen @param {number} length
 */
function extremes(before, after, chosen, length) {
  /** @type {[number, number][]} */
  let gained = [];
  /** @type {[number, number][]} */
  let lost = [];
  const keep = (/** @type {[number, number][]} */ list, /** @type {number} */ job, /** @type {number} */ size) => {
    if (list.length === length && size <= list[length - 1][1]) return;
    let at = list.length;
    while (at > 0 && list[at - 1][1] < size) at--;
    list.splice(at, 0, [job, size]);
    if (list.length > length) list.pop();
  };
  let more = 0;
  let less = 0;
  for (let job = 0; job < chosen.length; job++) {
    if (!chosen[job]) continue;
    const difference = after[job] - before[job];
    if (difference < 0) {
      less++;
      keep(gained, job, -difference);
    } else if (difference > 0) {
      more++;
      keep(lost, job, difference);
    }
  }
  return { gained: gained.map(([job]) => job), lost: lost.map(([job]) => job), less, more };
}
