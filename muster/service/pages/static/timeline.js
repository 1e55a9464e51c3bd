// @ts-check
"use strict";

// GPUs over time on a canvas: a row for each GPU, a bar for each stretch in which a job held it.
// `serverNow` is that of live.js, which every page has.

/** @typedef {{job_id: number | null, user: string | null, name: string | null, model: string | null, tenant: string | null, node: string, gpu_ids: number[], gpus: number, since: number, until: number | null, ended: string | null}} Entry */

const LABEL = 130;
const AXIS = 22;
const COLOURS = 6;
const MARK = 14;

const canvas = /** @type {HTMLCanvasElement} */ (document.getElementById("timeline"));
const paint = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
const under = /** @type {HTMLElement} */ (document.getElementById("under"));
const nothing = /** @type {HTMLElement} */ (document.getElementById("nothing"));
const key = /** @type {HTMLElement} */ (document.getElementById("key"));
const windowChoice = /** @type {HTMLSelectElement} */ (document.getElementById("window"));
const byChoice = /** @type {HTMLSelectElement} */ (document.getElementById("by"));
/** @type {{node: string, gpus: number}[]} */
const machines = JSON.parse(String(canvas.dataset.rows));
/** @type {Record<string, [string, string]>} the mark and the words of each way in which a bar ends */
const ends = JSON.parse(String(canvas.dataset.ends));
/** @type {Map<string, number>} */
const firstRow = new Map();
let rows = 0;
for (const machine of machines) {
  firstRow.set(machine.node, rows);
  rows += machine.gpus;
}
/** @type {Entry[]} */
let entries = [];
let until = serverNow();
let since = until - Number(windowChoice.value);
let following = true;
let asked = false;
let outdated = false;
let fitted = false;

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
const width = () => canvas.clientWidth - LABEL;
const rowHeight = () => (canvas.clientHeight - AXIS) / Math.max(rows, 1);
/** @param {number} time */
const x = (time) => LABEL + ((time - since) / (until - since)) * width();

/** Colours that the map of nodes gives to what holds GPUs now, where they are not those of `usual`; which attributes have
 * a key, and what stands for none. @typedef {{own: Record<string, Record<string, string>>, keyed: string[], nameless: Record<string, string>}} MapColours */

/** @returns {MapColours} as the page has them now */
const mapColours = () => JSON.parse(String(document.getElementById("colours")?.dataset.colours));

/** The class of a job's number, or of a name, where nothing speaks for another one; as colour_class of the daemon. @param {string} value @param {boolean} isNumber */
function usual(value, isNumber) {
  let sum = isNumber ? Number(value) : 0;
  if (!isNumber) for (const [at, letter] of [...value].entries()) sum += Number(letter.codePointAt(0)) * (at + 1);
  return `c${(sum % COLOURS) + 1}`;
}

/** By what an entry has its colour. @param {Entry} entry @param {string} by @param {MapColours} colours */
function valueOf(entry, by, colours) {
  const value = by === "job" ? entry.job_id : entry[/** @type {"user" | "tenant" | "model" | "name"} */ (by)];
  return String(value || (colours.nameless[by] ?? "unknown"));
}

/** By attribute, what has appeared since the page was opened, in that order. @type {Map<string, Set<string>>} */
const appeared = new Map();

/** The class of each value of the entries: that of the map of nodes where it is on it. Of values with a key the others take
 * the colours that are left, in the order in which they appear. @param {string} by @param {MapColours} colours */
function classesOf(by, colours) {
  const seen = appeared.get(by) ?? new Set();
  appeared.set(by, seen);
  for (const entry of entries) if (entry.job_id !== null) seen.add(valueOf(entry, by, colours));
  const found = new Map(Object.entries(colours.own[by] ?? {}));
  const taken = new Set(found.values());
  const left = Array.from({ length: COLOURS }, (_, at) => `c${at + 1}`).filter((one) => !taken.has(one));
  for (const value of seen)
    if (!found.has(value)) found.set(value, colours.keyed.includes(by) ? (left.shift() ?? "others") : usual(value, by === "job"));
  return found;
}

/** @typedef {(entry: Entry) => string} ClassOf of a bar */

/** @returns {ClassOf} by what is chosen */
function classChosen() {
  const by = byChoice.value;
  const colours = mapColours();
  const classes = classesOf(by, colours);
  return (entry) => (entry.job_id === null ? "others" : String(classes.get(valueOf(entry, by, colours))));
}

/** What the colours mean, where few values are many jobs'. @param {Entry[]} shown @param {ClassOf} classOf */
function writeKey(shown, classOf) {
  const colours = mapColours();
  /** @type {Map<string, string>} */
  const labels = new Map();
  for (const entry of shown) labels.set(classOf(entry), classOf(entry) === "others" ? "others" : valueOf(entry, byChoice.value, colours));
  const sorted = [...labels].sort(([one], [other]) => one.localeCompare(other));
  key.hidden = !colours.keyed.includes(byChoice.value) || !sorted.length;
  if (key.dataset.labels === JSON.stringify(sorted)) return;
  key.dataset.labels = JSON.stringify(sorted);
  key.replaceChildren(
    ...sorted.map(([end, label]) => {
      const item = document.createElement("li");
      const swatch = document.createElement("span");
      swatch.className = `swatch ${end}`;
      item.append(swatch, label);
      return item;
    }),
  );
}

/** @param {string} text @param {number} left @param {number} bottom @param {number} room so wide at most: the rest is cut off */
function write(text, left, bottom, room) {
  const letters = [...text];
  const part = room / Math.max(paint.measureText(text).width, 1);
  const kept = part >= 1 ? text : letters.slice(0, Math.max(Math.floor(letters.length * part) - 1, 0)).join("") + "…";
  paint.fillText(kept, left, bottom, room);
}

/** Mark how a bar ended: a sign where it has room, else a slanted end where its job did not complete.
 * @param {string} ended @param {number} left @param {number} right @param {number} y @param {number} height */
function drawEnd(ended, left, right, y, height) {
  if (height >= 11 && right - left >= MARK) {
    paint.fillStyle = colour("on-cell");
    paint.textAlign = "center";
    paint.fillText(String(ends[ended]?.[0] ?? ""), right - MARK / 2 - 1, y + height / 2 + 4, MARK);
    paint.textAlign = "start";
  } else if (ended !== "completed") {
    paint.fillStyle = colour("surface");
    paint.beginPath();
    paint.moveTo(right, y);
    paint.lineTo(right, y + height);
    paint.lineTo(right - Math.min(6, (right - left) / 2), y + height);
    paint.fill();
  }
}

function drawAxis() {
  paint.fillStyle = colour("quiet");
  paint.strokeStyle = colour("line");
  const steps = [1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400];
  const step = steps.find((one) => ((until - since) / one) * 90 < width()) ?? 604800;
  const shown = step < 60 ? 19 : 16;
  for (let time = Math.ceil(since / step) * step; time < until; time += step) {
    paint.beginPath();
    paint.moveTo(x(time), 0);
    paint.lineTo(x(time), canvas.clientHeight - AXIS);
    paint.stroke();
    const words = new Date(time * 1000).toISOString().slice(step >= 86400 ? 5 : 11, step >= 86400 ? 10 : shown);
    paint.fillText(words, x(time) + 3, canvas.clientHeight - 7);
  }
  for (const machine of machines) {
    const y = Number(firstRow.get(machine.node)) * rowHeight();
    paint.beginPath();
    paint.moveTo(0, y);
    paint.lineTo(canvas.clientWidth, y);
    paint.stroke();
    if (machine.gpus * rowHeight() >= 12) write(machine.node, 6, y + 13, LABEL - 12);
  }
}

/** What stands beside the picture: the key, and a note where it would be empty. @param {ClassOf} classOf */
function drawAround(classOf) {
  const shown = entries.filter((entry) => entry.since < until && (entry.until ?? Infinity) > since);
  nothing.hidden = shown.length > 0 || !fitted;
  writeKey(shown, classOf);
}

function draw() {
  const classOf = classChosen();
  drawAround(classOf);
  const scale = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = canvas.clientHeight * scale;
  paint.scale(scale, scale);
  paint.font = "12px system-ui, sans-serif";
  drawAxis();
  const height = rowHeight();
  /** @type {Map<string, string>} */
  const fills = new Map();
  paint.save();
  paint.beginPath();
  paint.rect(LABEL, 0, width(), canvas.clientHeight - AXIS);
  paint.clip();
  for (const entry of entries) {
    const left = x(entry.since);
    const right = x(entry.until ?? serverNow());
    const first = firstRow.get(entry.node);
    if (first === undefined || right < LABEL || left > canvas.clientWidth) continue;
    const name = classOf(entry);
    const fill = fills.get(name) ?? colour(`cell-${name.replace(/^c/, "")}`);
    fills.set(name, fill);
    for (const gpu of entry.gpu_ids) {
      const y = (first + gpu) * height;
      paint.fillStyle = fill;
      paint.fillRect(left, y + Math.min(height * 0.1, 1), Math.max(right - left - 0.5, 1), Math.max(height * 0.9, 1));
      if (height >= 13 && right - left > 40 && entry.job_id !== null) {
        paint.fillStyle = colour("on-cell");
        const room = right - Math.max(left, LABEL) - 6 - (entry.ended ? MARK : 0);
        write(`${entry.job_id} ${entry.name}`, Math.max(left, LABEL) + 3, y + height / 2 + 4, room);
      }
      if (entry.ended) drawEnd(entry.ended, left, right, y, height);
    }
  }
  paint.restore();
}

async function load() {
  outdated = asked;
  if (asked) return;
  asked = true;
  const margin = until - since;
  const answer = await fetch(`/v1/timeline?since=${since - margin}&until=${until + margin}`).catch(() => null);
  asked = false;
  if (outdated) void load();
  if (!answer?.ok) return;
  const found = await answer.json();
  entries = found.entries;
  canvas.dataset.entries = String(entries.length);
  if (!fitted) {
    fitted = true;
    since = Math.max(since, Math.min(until - 60, ...entries.map((entry) => entry.since)));
  }
  draw();
}

/** @param {number} factor @param {number} at the moment that stays where it is */
function zoom(factor, at) {
  const wide = Math.min(Math.max((until - since) * factor, 5), 90 * 86400);
  const share = (at - since) / (until - since);
  since = at - wide * share;
  until = since + wide;
  following = until >= serverNow();
  draw();
  void load();
}

/** @param {number} seconds */
function move(seconds) {
  since += seconds;
  until += seconds;
  following = until >= serverNow();
  draw();
}

/** @param {MouseEvent} event @returns {Entry | undefined} */
function entryAt(event) {
  const time = since + ((event.offsetX - LABEL) / width()) * (until - since);
  const row = Math.floor(event.offsetY / rowHeight());
  return entries.findLast((entry) => {
    const first = firstRow.get(entry.node) ?? -1;
    return entry.since <= time && time < (entry.until ?? Infinity) && entry.gpu_ids.includes(row - first);
  });
}

let dragged = 0;
canvas.addEventListener("pointerdown", (event) => {
  dragged = 0;
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (event.buttons & 1) {
    dragged += Math.abs(event.movementX);
    move((-event.movementX / width()) * (until - since));
    return;
  }
  const entry = entryAt(event);
  const end = entry?.until ?? serverNow();
  under.textContent = !entry
    ? ""
    : entry.job_id === null
      ? `A job of another user on ${entry.node}`
      : `Job ${entry.job_id} ${entry.name} of ${entry.user}: ${entry.gpus} ${entry.gpus === 1 ? "GPU" : "GPUs"} of ${entry.node}, ${Math.round(end - entry.since)} s${entry.ended ? `, ${ends[entry.ended]?.[1] ?? entry.ended}` : ""}`;
});
canvas.addEventListener("pointerup", (event) => {
  const entry = dragged < 4 ? entryAt(event) : undefined;
  if (entry?.job_id) location.assign(`/jobs/${entry.job_id}`);
  else if (dragged >= 4) void load();
});
canvas.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, since + ((event.offsetX - LABEL) / width()) * (until - since));
  },
  { passive: false },
);
canvas.addEventListener("keydown", (event) => {
  const wide = until - since;
  if (event.key === "ArrowLeft") move(-wide / 10);
  else if (event.key === "ArrowRight") move(wide / 10);
  else if (event.key === "+") zoom(1 / 1.5, (since + until) / 2);
  else if (event.key === "-") zoom(1.5, (since + until) / 2);
  else return;
  event.preventDefault();
  void load();
});
document.getElementById("nearer")?.addEventListener("click", () => zoom(1 / 1.5, (since + until) / 2));
document.getElementById("farther")?.addEventListener("click", () => zoom(1.5, (since + until) / 2));
windowChoice.addEventListener("change", () => {
  until = serverNow();
  since = until - Number(windowChoice.value);
  following = true;
  void load();
});
byChoice.addEventListener("change", draw);
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
document.addEventListener("muster:refreshed", () => void load());
setInterval(() => {
  if (!following || document.hidden) return;
  const wide = until - since;
  until = serverNow();
  since = until - wide;
  draw();
}, 1_000);
void load();
