// @ts-check

// The page: filter, linked charts, jobs that gained and lost most, and the story of one job under each scheduler.

/** @typedef {{tenant: number, user: number, model: number, size: number, from: number, to: number}} Filter */

const EXTREMES = 10;
const MOST_STRETCHES = 40;
/** Where the axis of the GPUs in use may end: few jobs hold a small share of them. */
const SHARES = [0.001, 0.002, 0.004, 0.01, 0.02, 0.04, 0.1, 0.2, 0.4, 0.6, 1];

/** @template {HTMLElement} T @param {string} tag @param {Record<string, string>} [attributes] @param {(Node | string)[]} content @returns {T} */
function element(tag, attributes = {}, ...content) {
  const made = /** @type {T} */ (document.createElement(tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...content);
  return made;
}

/** A canvas with a chart, its buttons, and what the pointer or the arrow keys are over. */
class Live {
  /** @param {HTMLElement} figure @param {Page} page */
  constructor(figure, page) {
    this.figure = figure;
    this.page = page;
    this.name = String(figure.dataset.chart);
    /** @type {Chart | null} */
    this.chart = null;
    /** @type {(() => Chart) | null} */
    this.next = null;
    this.visible = false;
    this.canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { class: "live", tabindex: "0", role: "img", "aria-label": figure.getAttribute("aria-label") ?? this.name }));
    this.over = /** @type {HTMLCanvasElement} */ (element("canvas", { class: "over", "aria-hidden": "true" }));
    this.said = element("output", { class: "said" });
    const buttons = element("span", { class: "files" });
    for (const kind of ["PNG", "SVG", "CSV"]) {
      const button = element("button", { type: "button", title: `Save this chart as ${kind}` }, kind);
      button.addEventListener("click", () => void this.save(kind.toLowerCase()));
      buttons.append(button);
    }
    figure.removeAttribute("role");
    figure.removeAttribute("aria-label");
    figure.append(element("div", { class: "stage" }, this.canvas, this.over), this.said, buttons);
    figure.classList.add("has-live");
    this.x = -1;
    this.y = -1;
    this.pressed = /** @type {{x: number, y: number} | null} */ (null);
    this.listen();
  }

  get width() {
    return this.canvas.clientWidth;
  }

  get height() {
    return this.chart ? this.chart.height(this.width) : 0;
  }

  /** What to draw next; at once where it can be seen, else a moment later. @param {() => Chart} next */
  show(next) {
    this.next = next;
    if (this.visible) this.refresh();
  }

  refresh() {
    if (!this.next || !this.width) return;
    this.chart = this.next();
    this.next = null;
    this.paint(palette());
  }

  /** @param {(role: string) => string} colour */
  paint(colour) {
    if (!this.chart || !this.width) return;
    const [width, height] = [this.width, this.height];
    for (const canvas of [this.canvas, this.over]) {
      const scale = devicePixelRatio || 1;
      canvas.style.height = `${height}px`;
      if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
        canvas.width = Math.round(width * scale);
        canvas.height = Math.round(height * scale);
      }
      const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      if (canvas === this.canvas) this.chart.draw(onCanvas(context), width, height, colour);
    }
  }

  /** Show what is at a point, or a moment that another chart shows. @param {Under | null} under @param {number} [moment] @param {boolean} [saying] */
  mark(under, moment, saying = false) {
    const context = /** @type {CanvasRenderingContext2D} */ (this.over.getContext("2d"));
    context.clearRect(0, 0, this.width, this.height);
    const to = onCanvas(context);
    const colour = palette();
    const times = this.chart?.times?.(this.width, this.height);
    const time = under?.time ?? moment;
    if (times && time !== undefined && time >= times.from && time <= times.to) {
      const x = times.left + ((time - times.from) / (times.to - times.from)) * (times.right - times.left);
      to.line([[x, times.top], [x, times.bottom]], { stroke: colour("ink"), dash: [3, 3] });
    } else if (under) to.line([[under.x, 0], [under.x, this.height]], { stroke: colour("quiet"), dash: [2, 4] });
    if (this.pressed && times) {
      const [left, right] = [Math.min(this.pressed.x, this.x), Math.max(this.pressed.x, this.x)];
      to.rect(left, times.top, right - left, times.bottom - times.top, colour("series-1"), 0.2);
    }
    if (!under) return;
    const room = 16 + 6.9 * Math.max(...under.words.map((line) => line.length));
    const high = 12 + 17 * under.words.length;
    const left = Math.max(0, Math.min(under.x + 14, this.width - room));
    const top = Math.max(0, Math.min(under.y + 14, this.height - high));
    to.rect(left, top, room, high, colour("ink"), 0.94);
    under.words.forEach((line, at) => to.text(line, left + 8, top + 18 + 17 * at, { fill: colour("surface"), bold: at === 0 }));
    if (saying) this.said.textContent = under.words.join("; ");
  }

  point() {
    const under = this.chart?.under(this.x, this.y, this.width, this.height) ?? null;
    this.mark(under);
    this.page.moment(under?.time, this);
    return under;
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      [this.x, this.y] = [event.offsetX, event.offsetY];
      if (this.chart?.times && event.button === 0) {
        this.pressed = { x: this.x, y: this.y };
        canvas.setPointerCapture(event.pointerId);
      }
      this.point();
    });
    canvas.addEventListener("pointermove", (event) => {
      [this.x, this.y] = [event.offsetX, event.offsetY];
      this.point();
    });
    canvas.addEventListener("pointerup", () => this.release());
    canvas.addEventListener("pointercancel", () => (this.pressed = null));
    canvas.addEventListener("pointerleave", () => {
      this.mark(null);
      this.page.moment(undefined, this);
    });
    canvas.addEventListener("dblclick", () => this.page.whole());
    canvas.addEventListener("keydown", (event) => {
      if (this.key(event.key, event.shiftKey)) event.preventDefault();
    });
    canvas.addEventListener("blur", () => this.mark(null));
  }

  release() {
    const [pressed, times] = [this.pressed, this.chart?.times?.(this.width, this.height)];
    this.pressed = null;
    if (!pressed || !times) return;
    if (Math.abs(this.x - pressed.x) < 5) {
      this.page.open(this);
      return;
    }
    const at = (/** @type {number} */ x) => times.from + ((Math.min(Math.max(x, times.left), times.right) - times.left) / (times.right - times.left)) * (times.to - times.from);
    const [one, other] = [at(pressed.x), at(this.x)];
    const tall = Math.abs(this.y - pressed.y) > 24 ? /** @type {[number, number]} */ ([Math.min(this.y, pressed.y), Math.max(this.y, pressed.y)]) : null;
    this.page.zoom(Math.min(one, other), Math.max(one, other), this, tall);
  }

  /** @param {string} key @param {boolean} far */
  key(key, far) {
    this.refresh();
    const step = far ? 60 : 12;
    const { width, height } = this;
    if (this.x < 0) [this.x, this.y] = [width / 2, height / 2];
    if (key === "ArrowLeft") this.x = Math.max(0, this.x - step);
    else if (key === "ArrowRight") this.x = Math.min(width - 1, this.x + step);
    else if (key === "ArrowUp") this.y = Math.max(0, this.y - step);
    else if (key === "ArrowDown") this.y = Math.min(height - 1, this.y + step);
    else if (key === "Enter") this.page.open(this);
    else if (key === "Escape") this.page.whole();
    else if ((key === "+" || key === "-") && this.chart?.times) {
      const { left, right, from, to } = this.chart.times(width, height);
      const middle = from + (Math.min(Math.max(this.x - left, 0), right - left) / (right - left)) * (to - from);
      const wide = (to - from) * (key === "+" ? 0.5 : 2);
      this.page.zoom(middle - wide / 2, middle + wide / 2, this, null);
    } else return false;
    if (key.startsWith("Arrow")) this.mark(this.chart?.under(this.x, this.y, width, height) ?? null, undefined, true);
    return true;
  }

  /** Save the chart as it is shown, in the colours of the light page. @param {string} kind */
  async save(kind) {
    this.refresh();
    const chart = this.chart;
    if (!chart) return;
    const [width, height] = [this.width, this.height];
    const colour = palette(true);
    /** @type {Blob | null} */
    let file = null;
    if (kind === "csv") {
      const cell = (/** @type {string | number} */ value) => (/[",\n\r]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
      file = new Blob([chart.rows().map((row) => row.map(cell).join(",")).join("\r\n"), "\r\n"], { type: "text/csv" });
    } else if (kind === "svg") {
      const namespace = String(document.querySelector("svg")?.namespaceURI);
      const { surface, text } = asSvg(width, height, namespace);
      surface.rect(0, 0, width, height, colour("surface"));
      chart.draw(surface, width, height, colour);
      file = new Blob([text()], { type: "image/svg+xml" });
    } else {
      const canvas = /** @type {HTMLCanvasElement} */ (element("canvas"));
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      context.scale(2, 2);
      const surface = onCanvas(context);
      surface.rect(0, 0, width, height, colour("surface"));
      chart.draw(surface, width, height, colour);
      file = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    }
    if (!file) return;
    const link = /** @type {HTMLAnchorElement} */ (element("a", { download: `${this.name}.${kind}` }));
    link.href = URL.createObjectURL(file);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }
}

class Page {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.chosen = new Uint8Array(data.jobs).fill(1);
    /** @type {Filter} */
    this.filter = { tenant: -1, user: -1, model: -1, size: -1, from: 0, to: data.end };
    this.size = Uint8Array.from(data.gpus, sizeIndex);
    const last = data.runs.length - 1;
    this.before = 0;
    this.after = Math.min(Number(document.getElementById("explore")?.dataset.best ?? last), last);
    this.most = Math.max(10, ...data.runs.map((run) => run.jct.reduce((most, one) => (one > most ? one : most), run.wait.reduce((most, one) => (one > most ? one : most), 0))));
    /** @type {Map<Float64Array, Uint16Array>} */
    this.bins = new Map();
    /** @type {Map<string, Live>} */
    this.live = new Map();
    this.nodes = data.runs.map((run) => /** @type {[number, number]} */ ([0, run.nodes.length]));
    this.by = "size";
    this.drawn = 0;
    /** When all charts are drawn. */
    this.settled = Promise.resolve();
    /** Whether it is known where jobs of a run were. */
    this.placed = data.runs.map(({ held, nodes }) => held !== null && held.node.every((node) => node < nodes.length));
  }

  start() {
    for (const still of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-static]"))) still.hidden = this.data.detailed;
    this.controls();
    for (const figure of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("figure[data-chart]")))
      if (this.kinds()[String(figure.dataset.chart)] || figure.classList.contains("only-live")) this.live.set(String(figure.dataset.chart), new Live(figure, this));
    const seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const live = /** @type {Live} */ (this.live.get(String(/** @type {HTMLElement} */ (target).dataset.chart)));
        live.visible = isIntersecting;
        if (isIntersecting) live.refresh();
      }
    });
    for (const live of this.live.values()) {
      live.visible = live.figure.getBoundingClientRect().top < innerHeight;
      seen.observe(live.figure);
    }
    this.update();
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      this.repaint();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    addEventListener("beforeprint", () => this.repaint(true));
    addEventListener("afterprint", () => this.repaint());
  }

  /** @param {boolean} [light] */
  repaint(light) {
    const colour = palette(light);
    for (const live of this.live.values()) {
      if (light) live.refresh();
      live.paint(colour);
    }
  }

  get filtered() {
    const { tenant, user, model, size } = this.filter;
    return tenant >= 0 || user >= 0 || model >= 0 || size >= 0 || this.zoomed;
  }

  get zoomed() {
    return this.filter.from > 0 || this.filter.to < this.data.end;
  }

  /** Which charts the page can draw, each from the chosen jobs. @returns {Record<string, () => Chart>} */
  kinds() {
    const { data, chosen, filter } = this;
    const runs = data.runs.map((run, number) => ({ run, number, name: run.name }));
    /** @param {"wait" | "jct"} what @returns {() => Chart} */
    const means = (what) => () =>
      bars([{ group: "", bars: runs.map(({ run, number, name }) => ({ run: number, name, value: meanOf(run, run[what], chosen).mean, jobs: meanOf(run, run[what], chosen).count })) }]);
    /** @param {"wait" | "jct"} what @returns {() => Chart} */
    const curve = (what) => () =>
      distribution(runs.map(({ run, number, name }) => ({ run: number, name, values: shares(run, this.binsOf(run[what]), chosen).shares })), this.most);
    /** @param {"wait" | "jct"} what @param {ArrayLike<number>} group @param {string[]} names @param {number} length @returns {() => Chart} */
    const grouped = (what, group, names, length) => () => {
      const all = runs.map(({ run }) => meansBy(run, run[what], chosen, group, names.length));
      const order = names.map((_, at) => at).filter((at) => all.some(({ counts }) => counts[at]));
      if (length < order.length) order.sort((one, other) => all[0].counts[other] - all[0].counts[one]);
      const shown = order.slice(0, length).sort((one, other) => (group === this.size ? one - other : naturally(names[one], names[other])));
      const bar = (/** @type {number} */ at) => runs.map(({ number, name }) => ({ run: number, name, value: all[number].means[at], jobs: all[number].counts[at] }));
      if (runs.length > 1) return bars(shown.map((at) => ({ group: names[at] || "none", bars: bar(at) })));
      return bars([{ group: "", bars: shown.map((at) => ({ ...bar(at)[0], name: names[at] || "none" })) }]);
    };
    const { from, to } = filter;
    return {
      "mean-wait": means("wait"),
      "mean-jct": means("jct"),
      wait: curve("wait"),
      jct: curve("jct"),
      "jct-by-size": grouped("jct", this.size, SIZE_NAMES, SIZE_NAMES.length),
      "wait-by-tenant": grouped("wait", data.tenant.numbers, data.tenant.names, 12),
      queue: () => {
        const series = runs.map(({ run, number, name }) => ({ run: number, name, values: overTime(run.waits.since, run.waits.until, (row) => chosen[run.waits.job[row]], from, to) }));
        const most = Math.max(1, ...series.map(({ values }) => values.reduce((one, other) => Math.max(one, other), 0)));
        const show = (/** @type {number} */ value) => (value < 10 ? value.toFixed(1).replace(".0", "") : Math.round(value).toLocaleString("en-US"));
        return overTimeChart(series, from, to, { panels: false, most, show, axis: "jobs wait", unit: "jobs_waiting" });
      },
      ...(data.detailed && {
        "gpu-use": () => {
          const series = runs.map(({ run, number, name }) => {
            const held = /** @type {Held} */ (run.held);
            const all = run.nodeGpus.reduce((sum, one) => sum + one, 0) || 1;
            const values = overTime(held.since, held.until, (row) => (chosen[held.job[row]] ? held.amounts[held.kind[row]] : 0), from, to);
            return { run: number, name, end: run.end, values: values.map((gpus) => Math.min(1, gpus / all)) };
          });
          const greatest = series.reduce((most, { values }) => values.reduce((one, other) => Math.max(one, other), most), 0);
          const most = this.filtered ? (SHARES.find((share) => share >= greatest) ?? 1) : 1;
          const show = (/** @type {number} */ share) => `${Number((100 * share).toPrecision(2))} %`;
          return overTimeChart(series, from, to, { panels: true, most, show, axis: "of GPUs", unit: "share_of_gpus" });
        },
        ...Object.fromEntries([this.before, this.after].filter((number) => this.placed[number]).map((number, at) => [`lanes-${at + 1}`, () => this.lanesOf(number)])),
      }),
    };
  }

  /** Where each job lies on the logarithmic axis; worked out at the first use. @param {Float64Array} values */
  binsOf(values) {
    const found = this.bins.get(values) ?? logBins(values, this.most);
    this.bins.set(values, found);
    return found;
  }

  /** @param {number} number */
  lanesOf(number) {
    const { data, chosen, filter } = this;
    const column = this.by === "tenant" || this.by === "model" || this.by === "user" ? data[this.by].numbers : this.size;
    const role = (/** @type {number} */ job) => (this.by === "size" ? `size-${column[job]}` : `series-${(column[job] % COLOURS) + 1}`);
    return lanes(data.runs[number], chosen, role, data.id, filter.from, filter.to, this.nodes[number]);
  }

  /** Choose the jobs again and draw everything. */
  update() {
    const { data, filter, chosen } = this;
    const { tenant, user, model, size, from, to } = filter;
    const zoomed = this.zoomed;
    let count = 0;
    for (let job = 0; job < data.jobs; job++) {
      const submit = data.submit[job];
      const yes =
        (tenant < 0 || data.tenant.numbers[job] === tenant) &&
        (user < 0 || data.user.numbers[job] === user) &&
        (model < 0 || data.model.numbers[job] === model) &&
        (size < 0 || this.size[job] === size) &&
        (!zoomed || (submit >= from && submit <= to));
      chosen[job] = yes ? 1 : 0;
      count += chosen[job];
    }
    document.body.classList.toggle("filtered", this.filtered);
    const state = document.getElementById("chosen");
    if (state) {
      const span = zoomed ? `, submitted ${duration(from)} to ${duration(to)} after the first` : "";
      state.textContent = this.filtered ? `${counted(count, "job")} of ${data.jobs.toLocaleString("en-US")}${span}. Charts and the table of jobs count these; the summary counts all.` : `All ${counted(count, "job")}`;
    }
    const reset = /** @type {HTMLButtonElement | null} */ (document.getElementById("reset"));
    if (reset) reset.disabled = !this.filtered;
    this.draw();
    this.table();
  }

  draw() {
    const kinds = this.kinds();
    const shown = [this.before, this.after].filter((number) => this.placed[number]);
    for (const [name, live] of this.live) {
      live.figure.hidden = !kinds[name];
      const title = live.figure.querySelector(".of-run");
      const number = shown[name === "lanes-2" ? 1 : 0];
      if (title && number !== undefined) title.textContent = `Nodes over time, ${this.data.runs[number].name}`;
      if (kinds[name]) live.show(kinds[name]);
    }
    this.settled = this.settle();
  }

  /** Draw what is out of sight too, a chart at a time, so that nothing moves when the page is scrolled. */
  async settle() {
    const now = ++this.drawn;
    for (const live of this.live.values()) {
      await new Promise((resolve) => setTimeout(resolve));
      if (now !== this.drawn) return;
      live.refresh();
    }
  }

  /** @param {number | undefined} time @param {Live} source */
  moment(time, source) {
    for (const live of this.live.values()) if (live !== source && live.chart?.times) live.mark(null, time);
  }

  /** @param {number} from @param {number} to @param {Live} source @param {[number, number] | null} tall */
  zoom(from, to, source, tall) {
    const least = this.data.end / 1e5;
    if (to - from < least) return;
    this.filter.from = Math.max(0, from);
    this.filter.to = Math.min(this.data.end, to);
    const number = [this.before, this.after].filter((run) => this.placed[run])[Number(source.name.replace("lanes-", "")) - 1] ?? -1;
    if (tall && number >= 0 && source.chart && "nodesAt" in source.chart)
      this.nodes[number] = /** @type {ReturnType<typeof lanes>} */ (source.chart).nodesAt(tall[0], tall[1], source.height);
    this.update();
  }

  whole() {
    this.filter.from = 0;
    this.filter.to = this.data.end;
    this.nodes = this.data.runs.map((run) => /** @type {[number, number]} */ ([0, run.nodes.length]));
    this.update();
  }

  /** Open the story of the job under the pointer. @param {Live} live */
  open(live) {
    if (!live.chart || !("job" in live.chart)) return;
    const job = /** @type {ReturnType<typeof lanes>} */ (live.chart).job(live.x, live.y, live.width, live.height);
    if (job !== null) this.story(job);
  }

  controls() {
    const place = /** @type {HTMLElement} */ (document.getElementById("explore"));
    const form = /** @type {HTMLFormElement} */ (element("form", { class: "filter", "aria-label": "Filter" }));
    form.addEventListener("submit", (event) => event.preventDefault());
    const choice = (/** @type {string} */ label, /** @type {[string, string][]} */ options, /** @type {(value: string) => void} */ changed, /** @type {string} */ value) => {
      const select = /** @type {HTMLSelectElement} */ (element("select", { "aria-label": label }, ...options.map(([key, name]) => element("option", { value: key }, name))));
      select.value = value;
      select.addEventListener("change", () => changed(select.value));
      return element("label", {}, label, select);
    };
    const { data } = this;
    /** @type {["tenant" | "user" | "model", string][]} */
    const columns = [["tenant", "Tenant"], ["user", "User"], ["model", "Model"]];
    for (const [what, label] of columns) {
      const { names } = data[what];
      if (names.length < 2) continue;
      const order = names.map((name, at) => /** @type {[string, string]} */ ([String(at), name || "none"])).sort((one, other) => naturally(one[1], other[1]));
      form.append(choice(label, [["-1", "all"], ...order], (value) => { this.filter[what] = Number(value); this.update(); }, "-1"));
    }
    const sizes = SIZE_NAMES.map((name, at) => /** @type {[string, string]} */ ([String(at), name])).filter(([at]) => this.size.includes(Number(at)));
    if (sizes.length > 1) form.append(choice("Size", [["-1", "all"], ...sizes], (value) => { this.filter.size = Number(value); this.update(); }, "-1"));
    const reset = element("button", { type: "button", id: "reset" }, "Show all");
    reset.addEventListener("click", () => {
      this.filter = { tenant: -1, user: -1, model: -1, size: -1, from: 0, to: data.end };
      for (const select of form.querySelectorAll("select")) select.value = "-1";
      this.whole();
    });
    form.append(reset, element("output", { id: "chosen" }));
    place.append(form);
    const hint = data.detailed ? "Drag along a time axis to zoom; double-click or Esc shows all." : "There are too many allocations to keep in one file: stories show times only, and nodes are left out.";
    place.after(element("p", { class: "quiet hint" }, hint));

    const pair = element("div", { class: "filter" });
    const names = data.runs.map((run, number) => /** @type {[string, string]} */ ([String(number), run.name]));
    this.what = /** @type {"wait" | "jct"} */ ("wait");
    const again = () => { this.draw(); this.table(); };
    if (names.length > 1) {
      pair.append(choice("From", names, (value) => { this.before = Number(value); again(); }, String(this.before)));
      pair.append(choice("to", names, (value) => { this.after = Number(value); again(); }, String(this.after)));
    }
    pair.append(choice("by", [["wait", "waiting time"], ["jct", "completion time"]], (value) => { this.what = value === "jct" ? "jct" : "wait"; again(); }, "wait"));
    const find = /** @type {HTMLInputElement} */ (element("input", { type: "search", size: "12", autocomplete: "off", "aria-label": "Job" }));
    const go = element("button", { type: "submit" }, "Open");
    const search = element("form", { class: "find" }, element("label", {}, "Job", find), go, element("output", { id: "unknown" }));
    search.addEventListener("submit", (event) => {
      event.preventDefault();
      let job = 0;
      while (job < data.jobs && data.id(job) !== find.value.trim()) job++;
      const unknown = /** @type {HTMLElement} */ (document.getElementById("unknown"));
      unknown.textContent = job < data.jobs ? "" : `no job is named ${find.value}`;
      if (job < data.jobs) this.story(job);
    });
    pair.append(search);
    document.getElementById("pair")?.append(pair);
    document.getElementById("by")?.append(choice("Colour by", [["size", "size"], ...columns.filter(([what]) => data[what].names.length > 1).map(([what, label]) => /** @type {[string, string]} */ ([what, label.toLowerCase()]))], (value) => { this.by = value; this.draw(); this.legend(); }, "size"), element("span", { class: "legend", id: "legend" }));
    this.legend();
    for (const hidden of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-live]"))) hidden.hidden = false;
  }

  /** What the colours of bars stand for; many names share the same few colours. */
  legend() {
    const chip = (/** @type {string} */ role, /** @type {string} */ name) => element("span", {}, element("span", { class: `chip ${role}` }), name);
    const { by, data } = this;
    const parts =
      by === "tenant" || by === "user" || by === "model"
        ? data[by].names.length > COLOURS
          ? [`${COLOURS} colours for ${counted(data[by].names.length, by)}`]
          : data[by].names.map((name, at) => chip(`chip-${at + 1}`, name || "none"))
        : SIZE_NAMES.map((name, at) => ({ name, at })).filter(({ at }) => at && this.size.includes(at)).map(({ name, at }) => chip(`shade-${at}`, name));
    document.getElementById("legend")?.replaceChildren(...parts);
  }

  /** The jobs that gained and lost most, or, of a single run, those that took longest. */
  table() {
    const body = document.getElementById("extremes");
    if (!body) return;
    const { data, chosen } = this;
    const what = this.what ?? "wait";
    const [one, other] = [data.runs[this.before], data.runs[this.after]];
    const alone = data.runs.length === 1;
    const both = alone ? chosen : chosen.map((yes, job) => (yes && one.done[job] && other.done[job] ? 1 : 0));
    const { gained, lost, less, more } = extremes(alone ? new Float64Array(data.jobs) : one[what], other[what], both, EXTREMES);
    const listed = [...gained, ...lost];
    const [unit, name] = commonUnit(listed.flatMap((job) => [one[what][job], other[what][job], other[what][job] - one[what][job]]));
    const named = what === "wait" ? "Wait" : "Completion time";
    const figure = (/** @type {number} */ seconds) => inUnit(seconds, unit);
    const optional = /** @type {["tenant" | "user" | "model", string][]} */ ([["tenant", "Tenant"], ["user", "User"], ["model", "Model"]]).filter(([column]) => data[column].names.length > 1);
    const times = alone ? [`${named}, ${name}`] : [`${named} under ${one.name}, ${name}`, `${named} under ${other.name}, ${name}`, `Change, ${name}`];
    const head = element("thead", {}, element("tr", {}, ...["Job", ...optional.map(([, label]) => label), "GPUs", ...times].map((label, at) => element("th", at && at <= optional.length ? { class: "text", scope: "col" } : { scope: "col" }, label))));
    const row = (/** @type {number} */ job) => {
      const button = element("button", { type: "button", class: "link" }, data.id(job));
      button.addEventListener("click", () => this.story(job));
      const change = other[what][job] - one[what][job];
      const cells = alone ? [figure(other[what][job])] : [figure(one[what][job]), figure(other[what][job]), `${change > 0 ? "+" : "−"}${figure(Math.abs(change))}`];
      return element("tr", {}, element("th", { scope: "row" }, button), ...optional.map(([column]) => element("td", { class: "text" }, data[column].names[data[column].numbers[job]] || "none")), ...[threeOrWhole(data.gpus[job]), ...cells].map((text) => element("td", {}, text)));
    };
    const part = (/** @type {string} */ title, /** @type {number[]} */ jobs) => jobs.length ? [element("tr", { class: "part" }, element("th", { colspan: String(2 + optional.length + times.length), scope: "rowgroup" }, title)), ...jobs.map(row)] : [];
    const rows = alone
      ? part("Longest", lost)
      : [...part(`Gained most; ${counted(less, "job")} in all`, gained), ...part(`Lost most; ${counted(more, "job")} in all`, lost)];
    body.replaceChildren(head, element("tbody", {}, ...(rows.length ? rows : [element("tr", {}, element("td", {}, "No job differs."))])));
  }

  /** What happened to one job under each scheduler of the pair. @param {number} job */
  story(job) {
    const { data } = this;
    const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("story"));
    const numbers = [...new Set([this.before, this.after])];
    const facts = [`${threeOrWhole(data.gpus[job])} ${data.gpus[job] === 1 ? "GPU" : data.gpus[job] < 1 ? "of a GPU" : "GPUs"}`, `submitted ${duration(data.submit[job])} after the first job`];
    for (const what of /** @type {("model" | "tenant" | "user")[]} */ (["model", "tenant", "user"])) {
      const name = data[what].names[data[what].numbers[job]];
      if (name) facts.splice(1, 0, `${what} ${name}`);
    }
    const close = element("button", { type: "button" }, "Close");
    close.addEventListener("click", () => dialog.close());
    const title = element("h2", { id: "story-title" }, `Job ${data.id(job)}`);
    const columns = numbers.map((number) => element("section", {}, ...this.storyUnder(job, number)));
    dialog.replaceChildren(element("div", { class: "head" }, title, close), element("p", { class: "quiet" }, `${facts.join(", ")}.`), element("div", { class: "stories" }, ...columns));
    if (!dialog.open) dialog.showModal();
  }

  /** @param {number} job @param {number} number @returns {Node[]} */
  storyUnder(job, number) {
    const run = this.data.runs[number];
    const outcome = run.outcome.names[run.outcome.numbers[job]].replace("_", " ");
    const submit = this.data.submit[job];
    const whole = Number.isFinite(run.finish[job]) ? run.finish[job] - submit : NaN;
    const ended = Number.isFinite(whole) ? `${outcome} after ${duration(whole)}` : outcome;
    const stops = run.preemptions[job] ? `, stopped ${run.preemptions[job] === 1 ? "once" : `${run.preemptions[job]} times`}` : "";
    const heading = element("h3", {}, element("span", { class: `chip chip-${(number % COLOURS) + 1}` }), run.name);
    const summary = element("p", {}, `Waited ${duration(run.wait[job])}${stops}; ${ended}.`);
    const steps = this.steps(job, run);
    const shown = steps.slice(0, MOST_STRETCHES);
    const [unit, name] = commonUnit(shown.flatMap(({ since, until }) => [until - since, since - submit]));
    const time = (/** @type {number} */ seconds) => `${inUnit(seconds, unit)} ${name}`;
    const list = element("ol", { class: "steps" }, ...shown.map(({ since, until, words, held }) =>
      element("li", { class: held ? "ran" : "waited" }, element("b", {}, `${held ? "Ran" : "Waited"} ${time(until - since)}`), ` from ${time(since - submit)} on: ${words}`)));
    const more = steps.length > shown.length ? [element("p", { class: "quiet" }, `and ${counted(steps.length - shown.length, "further stretch").replace("stretchs", "stretches")}`)] : [];
    const holding = run.holding[job] ? [element("p", { class: "quiet holding" }, run.holding[job].join(" "))] : [];
    return [heading, summary, ...holding, list, ...more];
  }

  /** Stretches of a job in order of time: where it ran, why it waited. @param {number} job @param {Run} run */
  steps(job, run) {
    const { held, reasons } = run;
    /** @type {{since: number, until: number, words: string, held: boolean}[]} */
    const steps = [];
    if (held) {
      for (let row = held.first[job]; row < held.first[job + 1]; row++) {
        const ids = held.gpuIds[held.kind[row]];
        const amount = held.amounts[held.kind[row]];
        const which = ids.length ? ` (${ids.length === 1 ? "GPU" : "GPUs"} ${stretches(ids).map(([first, end]) => (end - first > 1 ? `${first}–${end - 1}` : first)).join(", ")})` : "";
        const words = `${amount && amount < ids.length ? `${threeOrWhole(amount)} of a GPU on ` : ""}${run.nodes[held.node[row]] ?? "nodes not recorded"}${which}`;
        const last = steps.at(-1);
        if (last && last.since === held.since[row] && last.until === held.until[row]) last.words += `, ${words}`;
        else steps.push({ since: held.since[row], until: held.until[row], words, held: true });
      }
    }
    if (reasons)
      for (let row = reasons.first[job]; row < reasons.first[job + 1]; row++)
        if (reasons.until[row] > reasons.since[row]) steps.push({ since: reasons.since[row], until: reasons.until[row], words: reasons.text.names[reasons.text.numbers[row]], held: false });
    return steps.sort((one, other) => one.since - other.since);
  }
}

/** A count without decimals, a share with three figures. @param {number} value */
const threeOrWhole = (value) => (Number.isInteger(value) ? value.toLocaleString("en-US") : threeFigures(value));

const block = document.getElementById("data");
if (block && "DecompressionStream" in globalThis) {
  const page = new Page(read(await unpacked(String(block.textContent))));
  page.start();
  await page.settled;
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
