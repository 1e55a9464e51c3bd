// @ts-check

// Nodes over time: a lane for each GPU with a bar for each job, or, where there are too many bars, how full each node is.

const MOST_BARS = 6000;
const LEAST_LANE = 1.4;
const HEAT_ROLES = 9;

/** Neighbouring numbers joined, ends excluded: 0 1 2 5 gives [0, 3] and [5, 6]. @param {number[]} ids */
function stretches(ids) {
  /** @type {[number, number][]} */
  const joined = [];
  for (const id of [...ids].sort((one, other) => one - other)) {
    const last = joined.at(-1);
    if (last && last[1] === id) last[1] = id + 1;
    else joined.push([id, id + 1]);
  }
  return joined;
}

/**
 * @param {Run} run @param {Uint8Array} chosen @param {(job: number) => string} roleOfJob @param {(job: number) => string} idOf
 * @param {number} from @param {number} to @param {[number, number]} nodes the first node shown and the one after the last
 * @returns {Chart & {job: (x: number, y: number, width: number, height: number) => number | null, nodesAt: (top: number, bottom: number, height: number) => [number, number]}}
 */
function lanes(run, chosen, roleOfJob, idOf, from, to, [firstNode, endNode]) {
  const held = /** @type {Held} */ (run.held);
  const tops = [0];
  for (const gpus of run.nodeGpus) tops.push(tops[tops.length - 1] + Math.max(gpus, 1));
  const low = tops[firstNode];
  const count = tops[endNode] - low;
  /** @type {number[]} */
  const rows = [];
  for (let row = 0; row < held.since.length; row++)
    if (chosen[held.job[row]] && held.until[row] > from && held.since[row] < to && held.node[row] >= firstNode && held.node[row] < endNode) rows.push(row);
  const height = () => Math.min(760, Math.max(90, 14 * (endNode - firstNode), 7 * count)) + 50;
  const box = (/** @type {number} */ width, /** @type {number} */ high) => ({ left: Math.min(110, width * 0.25), right: width - 8, top: 6, bottom: high - 42 });
  const lane = (/** @type {number} */ high) => (high - 48) / count;
  const barred = (/** @type {number} */ high) => rows.length <= MOST_BARS && lane(high) >= LEAST_LANE;
  const share = (/** @type {Box} */ area, /** @type {number} */ time) => area.left + ((time - from) / (to - from)) * (area.right - area.left);
  const nodeAt = (/** @type {number} */ y, /** @type {number} */ high) => {
    const at = low + (y - 6) / lane(high);
    let node = firstNode;
    while (node < endNode - 1 && tops[node + 1] <= at) node++;
    return node;
  };
  /** @param {Surface} surface @param {Box} area @param {number} high @param {(role: string) => string} colour */
  const drawBars = (surface, area, high, colour) => {
    const size = lane(high);
    for (const row of rows) {
      const left = Math.max(share(area, held.since[row]), area.left);
      const right = Math.min(share(area, held.until[row]), area.right);
      const top = area.top + (tops[held.node[row]] - low) * size;
      const fill = colour(roleOfJob(held.job[row]));
      const ids = held.gpuIds[held.kind[row]];
      const amount = held.amounts[held.kind[row]];
      const part = ids.length && amount < ids.length ? Math.max(amount / ids.length, 0.2) : 1;
      for (const [first, end] of stretches(ids)) {
        const thick = (end - first) * size * part;
        surface.rect(left, top + first * size + Math.min(0.5, size / 8), Math.max(right - left - 0.5, 0.7), Math.max(thick - Math.min(1, size / 4), 0.7), fill);
        if (thick >= 13 && right - left > 46) surface.text(`job ${idOf(held.job[row])}`, left + 4, top + first * size + thick / 2 + 4, { fill: colour("surface"), size: 11, width: right - left - 8 });
      }
    }
  };
  /** How full each part of the picture is. @param {number} columns @param {number} lines */
  const heat = (columns, lines) => {
    const each = (endNode - firstNode) / lines;
    const grid = new Float64Array(lines * (columns + 1));
    const steps = new Float64Array(lines * (columns + 2));
    const scale = columns / (to - from);
    for (const row of rows) {
      const line = Math.floor((held.node[row] - firstNode) / each);
      const gpus = held.amounts[held.kind[row]];
      const begin = Math.max(0, (held.since[row] - from) * scale);
      const end = Math.min(columns, (held.until[row] - from) * scale);
      const [first, last] = [Math.floor(begin), Math.floor(end)];
      grid[line * (columns + 1) + first] += gpus * (first + 1 - begin);
      steps[line * (columns + 2) + first + 1] += gpus;
      grid[line * (columns + 1) + last] -= gpus * (last + 1 - end);
      steps[line * (columns + 2) + last + 1] -= gpus;
    }
    for (let line = 0; line < lines; line++) {
      const there = run.nodeGpus.slice(firstNode + Math.ceil(line * each), firstNode + Math.ceil((line + 1) * each)).reduce((sum, one) => sum + one, 0);
      let level = 0;
      for (let column = 0; column < columns; column++) {
        const at = line * (columns + 1) + column;
        grid[at] = Math.min(1, Math.max(0, (level += steps[line * (columns + 2) + column]) + grid[at]) / Math.max(there, 1e-9));
      }
    }
    return grid;
  };
  const heatSize = (/** @type {Box} */ area) => ({
    columns: Math.max(20, Math.min(300, Math.floor((area.right - area.left) / 3))),
    lines: Math.min(endNode - firstNode, Math.max(1, Math.floor((area.bottom - area.top) / 4))),
  });
  /** @param {Surface} surface @param {Box} area @param {(role: string) => string} colour */
  const drawHeat = (surface, area, colour) => {
    const { columns, lines } = heatSize(area);
    const grid = heat(columns, lines);
    const [wide, thick] = [(area.right - area.left) / columns, (area.bottom - area.top) / lines];
    for (let line = 0; line < lines; line++)
      for (let column = 0; column < columns; column++) {
        const value = grid[line * (columns + 1) + column];
        if (value < 0.005) continue;
        let end = column + 1;
        const level = Math.min(HEAT_ROLES, Math.ceil(value * HEAT_ROLES));
        while (end < columns && Math.min(HEAT_ROLES, Math.ceil(grid[line * (columns + 1) + end] * HEAT_ROLES)) === level && grid[line * (columns + 1) + end] >= 0.005) end++;
        surface.rect(area.left + column * wide, area.top + line * thick, (end - column) * wide + 0.2, Math.max(thick - 0.4, 0.8), colour(`size-${level}`));
        column = end - 1;
      }
  };
  /** @param {number} x @param {number} y @param {number} width @param {number} high */
  const job = (x, y, width, high) => {
    const area = box(width, high);
    if (!barred(high) || x < area.left || y < area.top || y > area.bottom) return null;
    const time = from + ((x - area.left) / (area.right - area.left)) * (to - from);
    const node = nodeAt(y, high);
    const gpu = Math.floor(low + (y - area.top) / lane(high) - tops[node]);
    const found = rows.findLast((row) => held.node[row] === node && held.since[row] <= time && time < held.until[row] && held.gpuIds[held.kind[row]].includes(gpu));
    return found === undefined ? null : held.job[found];
  };
  return {
    height,
    draw(surface, width, high, colour) {
      const area = box(width, high);
      surface.clip(area.left, area.top, area.right - area.left, area.bottom - area.top);
      if (barred(high)) drawBars(surface, area, high, colour);
      else drawHeat(surface, area, colour);
      surface.unclip();
      let free = 0;
      for (let node = firstNode; node < endNode; node++) {
        const top = area.top + (tops[node] - low) * lane(high);
        if (lane(high) * (tops[node + 1] - tops[node]) >= 5) surface.line([[area.left, top], [area.right, top]], { stroke: colour("line") });
        const middle = top + (lane(high) * (tops[node + 1] - tops[node])) / 2 + 4;
        if (middle < free + 12) continue;
        surface.text(run.nodes[node], area.left - 6, middle, { fill: colour("ink"), align: "right", size: 11, width: area.left - 8 });
        free = middle;
      }
      surface.line([[area.left, area.bottom], [area.right, area.bottom]], { stroke: colour("line") });
      timeAxis(surface, area, from, to, colour);
    },
    times: (width, high) => ({ ...box(width, high), from, to }),
    under(x, y, width, high) {
      const area = box(width, high);
      if (x < area.left || x > area.right || y < area.top || y > area.bottom) return null;
      const time = from + ((x - area.left) / (area.right - area.left)) * (to - from);
      const when = `After ${duration(time)} on ${run.nodes[nodeAt(y, high)]}`;
      const found = job(x, y, width, high);
      if (found !== null) return { words: [when, `job ${idOf(found)}`, "Press Enter or click for its story."], x, y, time };
      if (barred(high)) return { words: [when, "no chosen job here"], x, y, time };
      const { columns, lines } = heatSize(area);
      const line = Math.min(lines - 1, Math.floor(((y - area.top) / (area.bottom - area.top)) * lines));
      const column = Math.min(columns - 1, Math.floor(((x - area.left) / (area.right - area.left)) * columns));
      return { words: [when, `${percent(heat(columns, lines)[line * (columns + 1) + column])} of GPUs held`], x, y, time };
    },
    job,
    nodesAt: (top, bottom, high) => [nodeAt(top, high), nodeAt(bottom, high) + 1],
    rows: () => [
      ["job_id", "node", "gpus", "gpu_ids", "from_seconds", "to_seconds"],
      ...rows.map((row) => [idOf(held.job[row]), run.nodes[held.node[row]], held.amounts[held.kind[row]], held.gpuIds[held.kind[row]].join(" "), Number(held.since[row].toFixed(3)), Number(held.until[row].toFixed(3))]),
    ],
  };
}
