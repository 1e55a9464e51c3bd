// @ts-check

// The block of the page, as muster/report/embedded.py writes it, back into columns.

/** @typedef {{count: number, width: number, signed: number, delta: number}} Column */
/** @typedef {{names: string[], numbers: Float64Array}} Named */
/** @typedef {{first: Float64Array, job: Float64Array, since: Float64Array, until: Float64Array, node: Float64Array, kind: Float64Array, amounts: number[], gpuIds: number[][]}} Held */
/** @typedef {{first: Float64Array, since: Float64Array, until: Float64Array, text: Named}} Reasons */
/** @typedef {{job: Float64Array, since: Float64Array, until: Float64Array}} Stretches */
/**
 * One run; times are seconds since the first submission, NaN where there is none.
 * @typedef {{name: string, end: number, nodes: string[], nodeGpus: number[], start: Float64Array, finish: Float64Array, wait: Float64Array,
 *   jct: Float64Array, done: Uint8Array, preemptions: Float64Array, outcome: Named, held: Held | null, reasons: Reasons | null,
 *   waits: Stretches, holding: Record<string, string[]>}} Run
 */
/**
 * @typedef {{end: number, jobs: number, id: (job: number) => string, submit: Float64Array, model: Named, tenant: Named, user: Named,
 *   gpus: Float64Array, detailed: boolean, runs: Run[]}} Data
 */

/** @param {string} text @returns {Promise<DataView>} */
async function unpacked(text) {
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new DataView(await new Response(stream).arrayBuffer());
}

/** @param {DataView} view @returns {Data} */
function read(view) {
  const size = view.getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(view.buffer, 4, size)));
  let at = 4 + size;
  /** @param {Column} column */
  const column = ({ count, width, signed, delta }) => {
    const values = new Float64Array(count);
    for (let place = 0, weight = 1; place < width; place++, weight *= 256) {
      const bytes = new Uint8Array(view.buffer, at, count);
      for (let row = 0; row < count; row++) values[row] += bytes[row] * weight;
      at += count;
    }
    if (signed) for (let row = 0; row < count; row++) values[row] = values[row] % 2 ? -(values[row] + 1) / 2 : values[row] / 2;
    if (delta) for (let row = 1; row < count; row++) values[row] += values[row - 1];
    return values;
  };
  /** @param {{names: string[], column: Column}} one @returns {Named} */
  const named = (one) => ({ names: one.names, numbers: column(one.column) });
  // Columns are read in the order in which they were written.
  const tick = header.tick_seconds;
  const submit = column(header.submit);
  const [model, tenant, user] = [named(header.model), named(header.tenant), named(header.user)];
  const sizes = named(header.gpus);
  const firstSpan = new Float64Array(header.jobs);
  const runs = header.runs.map((/** @type {any} */ run, /** @type {number} */ number) => {
    const [gap, span, more] = [column(run.gap), column(run.span), column(run.more_wait)];
    if (number) for (let job = 0; job < header.jobs; job++) span[job] += firstSpan[job];
    else firstSpan.set(span);
    const preemptions = column(run.preemptions);
    const outcome = named(run.outcome);
    const measured = column(run.measured);
    const begin = new Float64Array(header.jobs);
    const end = new Float64Array(header.jobs);
    for (let job = 0; job < header.jobs; job++) {
      begin[job] = submit[job] + Math.max(gap[job], 0);
      end[job] = span[job] < 0 ? header.end : begin[job] + span[job];
    }
    const held = run.held ? readHeld(run.held, column, named, begin, end) : null;
    const reasons = run.reasons ? readReasons(run.reasons, column, named, submit) : null;
    const completed = outcome.names.indexOf("completed");
    const done = Uint8Array.from(measured, (counts, job) => (counts && outcome.numbers[job] === completed ? 1 : 0));
    const start = begin.map((time, job) => (gap[job] < 0 ? NaN : time * tick));
    const finish = end.map((time, job) => (span[job] < 0 ? NaN : time * tick));
    const wait = more.map((ticks, job) => (ticks + Math.max(gap[job], 0)) * tick);
    const jct = finish.map((time, job) => (done[job] ? time - submit[job] * tick : NaN));
    const never = [outcome.names.indexOf("refused"), outcome.names.indexOf("absent")];
    const waits = waiting(submit, begin, end, gap, held, (job) => never.includes(outcome.numbers[job]));
    for (const times of [waits.since, waits.until, held?.since, held?.until, reasons?.since, reasons?.until])
      for (let row = 0; times && row < times.length; row++) times[row] *= tick;
    const { name, nodes, node_gpus: nodeGpus, holding } = run;
    return { name, end: run.end * tick, nodes, nodeGpus, start, finish, wait, jct, done, preemptions, outcome, held, reasons, waits, holding };
  });
  const gpus = sizes.numbers.map((number) => Number(sizes.names[number]));
  const id = (/** @type {number} */ job) => (header.ids ? header.ids[job] : String(job));
  const seconds = submit.map((time) => time * tick);
  return { end: header.end * tick, jobs: header.jobs, id, submit: seconds, model, tenant, user, gpus, detailed: header.detailed, runs };
}

/** The first row of each job, and the end. @param {Float64Array} counts */
function firstRows(counts) {
  const first = new Float64Array(counts.length + 1);
  counts.forEach((count, job) => (first[job + 1] = first[job] + count));
  return first;
}

/**
 * @param {any} written @param {(one: Column) => Float64Array} column @param {(one: any) => Named} named
 * @param {Float64Array} begin @param {Float64Array} end @returns {Held}
 */
function readHeld(written, column, named, begin, end) {
  const first = firstRows(column(written.count));
  const [since, until, node] = [column(written.since), column(written.until), column(written.node)];
  const kinds = named(written.gpus);
  const jobs = new Float64Array(since.length);
  for (let job = 0; job < begin.length; job++)
    for (let row = first[job]; row < first[job + 1]; row++) {
      jobs[row] = job;
      const same = row > first[job] && since[row] === 0;
      since[row] += row > first[job] ? since[row - 1] : begin[job];
      until[row] += same ? until[row - 1] : end[job];
    }
  const parts = kinds.names.map((kind) => kind.split(":"));
  const gpuIds = parts.map((part) => (part[1] ? part[1].split(",").map(Number) : []));
  return { first, job: jobs, since, until, node, kind: kinds.numbers, amounts: parts.map((part) => Number(part[0])), gpuIds };
}

/**
 * @param {any} written @param {(one: Column) => Float64Array} column @param {(one: any) => Named} named
 * @param {Float64Array} submit @returns {Reasons}
 */
function readReasons(written, column, named, submit) {
  const first = firstRows(column(written.count));
  const [since, until, text] = [column(written.since), column(written.length), named(written.text)];
  for (let job = 0; job < submit.length; job++)
    for (let row = first[job]; row < first[job + 1]; row++) {
      since[row] += row > first[job] ? until[row - 1] : submit[job];
      until[row] += since[row];
    }
  return { first, since, until, text };
}

/**
 * When jobs are in the system and hold nothing.
 * @param {Float64Array} submit @param {Float64Array} begin @param {Float64Array} end @param {Float64Array} gap
 * @param {Held | null} held @param {(job: number) => boolean} left @returns {Stretches}
 */
function waiting(submit, begin, end, gap, held, left) {
  const most = submit.length + (held ? held.since.length : 0) + submit.length;
  const [job, since, until] = [new Float64Array(most), new Float64Array(most), new Float64Array(most)];
  let count = 0;
  const add = (/** @type {number} */ number, /** @type {number} */ from, /** @type {number} */ to) => {
    if (from >= to) return;
    job[count] = number;
    since[count] = from;
    until[count++] = to;
  };
  for (let number = 0; number < submit.length; number++) {
    if (left(number)) continue;
    const started = gap[number] >= 0;
    let covered = started ? begin[number] : end[number];
    add(number, submit[number], covered);
    if (!held || !started) continue;
    for (let row = held.first[number]; row < held.first[number + 1]; row++) {
      add(number, covered, held.since[row]);
      covered = Math.max(covered, held.until[row]);
    }
    if (covered > begin[number]) add(number, covered, end[number]);
  }
  return { job: job.subarray(0, count), since: since.subarray(0, count), until: until.subarray(0, count) };
}
