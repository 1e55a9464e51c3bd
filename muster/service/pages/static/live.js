// @ts-check
"use strict";

// Keeps a page as the daemon has it: on each change its body is fetched again and merged into what is shown. While
// nothing changes, nothing is fetched.

const LEAST_PAUSE_MS = 700;
const RETRY_MS = 2_000;
const LOG_PAUSE_MS = 1_000;
const AGAIN_MS = 2_000;
const LONGEST_LOG = 200_000;
const LOG_PIECE = 65_536;
/** So many full pieces in a row are read; then the box jumps to the end of what the job writes. */
const MOST_LOG_PIECES = 3;
const ENDED = ["completed", "failed", "cancelled", "timed_out"];

/** @type {any} */
const morph = /** @type {any} */ (window).Idiomorph.morph;
const live = /** @type {HTMLElement} */ (document.getElementById("live"));
/** Seconds that the daemon's clock is ahead of this machine's, which may be wrong. */
const clockAhead = Number(document.documentElement.dataset.now) - Date.now() / 1000;
let fetchedAt = Date.now();
let waiting = false;
let refreshing = false;
/** Something has changed while the page was fetched. */
let missed = false;
/** What the daemon calls what is shown. */
let tag = "";

/** Unix seconds by the daemon's clock. */
function serverNow() {
  return Date.now() / 1000 + clockAhead;
}

/** @param {string} text @param {boolean} broken */
function showState(text, broken) {
  live.textContent = text;
  live.classList.toggle("broken", broken);
}

function toLogin() {
  location.assign(`/login?to=${encodeURIComponent(location.pathname + location.search)}`);
}

/** @param {number} seconds Three figures in the largest unit that gives at least 1, as everywhere in Muster. */
function duration(seconds) {
  const [unit, name] = seconds >= 172800 ? [86400, "d"] : seconds >= 3600 ? [3600, "h"] : seconds >= 60 ? [60, "min"] : [1, "s"];
  const value = seconds / Number(unit);
  const digits = value === 0 ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(value)), 0), 4);
  return `${value.toFixed(name === "s" ? 0 : digits)} ${name}`;
}

/** Let the times go on that say how long ago something was: no page is fetched for them. */
function tick() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[data-since]"))
    time.textContent = duration(Math.max(serverNow() - Number(time.getAttribute("data-since")), 0));
}

/** Something has changed: what is loaded by scripts may be another, even where the body of the page is the same. */
function announce() {
  document.dispatchEvent(new Event("muster:refreshed"));
}

/** Fetch this page again and merge it into what is shown. */
async function refresh() {
  if (refreshing) {
    missed = true;
    return;
  }
  refreshing = true;
  try {
    const asked = location.pathname + location.search;
    const headers = { "Muster-Part": "main", "If-None-Match": tag };
    const answer = await fetch(asked, { headers, cache: "no-store" });
    if (answer.redirected) return toLogin();
    fetchedAt = Date.now();
    if (answer.status >= 500) setTimeout(refreshSoon, RETRY_MS);
    if (answer.status === 304) return announce();
    // What was chosen meanwhile is not in it: it is about to be asked for.
    if (!answer.ok || choosing || asked !== location.pathname + location.search) return;
    tag = answer.headers.get("ETag") ?? "";
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = fresh.title;
    morph(document.querySelector("main"), fresh.querySelector("main"), {
      morphStyle: "outerHTML",
      // Of a button it would keep the words, beside an address that is another one's.
      ignoreActiveValue: document.activeElement?.matches("input, select, textarea") ?? false,
      callbacks: {
        beforeNodeMorphed: (/** @type {any} */ old) => !(old instanceof HTMLElement && old.hasAttribute("data-keep")),
      },
    });
    tick();
    announce();
  } catch {
    // The stream of events says that the daemon is away.
    setTimeout(refreshSoon, RETRY_MS);
  } finally {
    refreshing = false;
    if (missed) refreshSoon();
    missed = false;
  }
}

/** Refresh soon, but not more often than a person can follow, and not while nobody looks. */
function refreshSoon() {
  if (waiting || document.hidden) return;
  waiting = true;
  const pause = Math.max(50, LEAST_PAUSE_MS - (Date.now() - fetchedAt));
  setTimeout(() => {
    waiting = false;
    void refresh();
  }, pause);
}

function follow() {
  const stream = new EventSource("/v1/events");
  stream.addEventListener("open", () => {
    showState("live", false);
    // Whatever has changed since the page was made, or while the daemon was away.
    refreshSoon();
  });
  stream.addEventListener("change", refreshSoon);
  stream.addEventListener("state", refreshSoon);
  stream.addEventListener("error", () => {
    showState("the daemon does not answer; trying again", true);
    if (stream.readyState !== EventSource.CLOSED) return;
    setTimeout(async () => {
      const who = await fetch("/v1/whoami").catch(() => null);
      if (who?.status === 401) toLogin();
      else follow();
    }, 2_000);
  });
  addEventListener("pagehide", () => stream.close());
}

/** @param {HTMLElement} button */
async function post(button) {
  const question = button.dataset.confirm;
  if (question && !confirm(question)) return;
  await send(button, String(button.dataset.post), null);
}

/** @param {HTMLElement} control @param {string} address @param {object | null} body What the API takes, if anything. */
async function send(control, address, body) {
  const hadFocus = control.contains(document.activeElement);
  control.setAttribute("disabled", "");
  const sent = body === null ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await fetch(address, { method: control.dataset.method ?? "POST", ...sent }).catch(() => null);
  control.removeAttribute("disabled");
  if (answer === null) alert("The daemon does not answer. It may have done this or not: look before you try again.");
  else {
    const found = answer.status === 204 ? null : await answer.json();
    if (answer.status === 401) return toLogin();
    if (!answer.ok) alert(found.error.message);
    else if (answer.status === 201) return location.assign(`/jobs/${found.job_id}`);
    else await refresh();
  }
  // A control that is disabled loses the focus, and a keyboard its place on the page.
  if (hadFocus && document.activeElement === document.body)
    /** @type {HTMLElement | null} */ (control.isConnected && control.tabIndex >= 0 ? control : document.querySelector("main"))?.focus();
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  if (button?.dataset.post) void post(button);
  if (button?.hasAttribute("data-logout"))
    void fetch("/v1/session", { method: "DELETE" }).then(() => location.assign("/login"));
});

document.addEventListener("change", (event) => {
  const input = event.target;
  if (!(input instanceof HTMLInputElement) || !input.dataset.postValue) return;
  if (input.value !== "") void send(input, input.dataset.postValue, { [String(input.dataset.field)]: input.valueAsNumber });
});

/** Until what was chosen in a form is in the address. */
let choosing = 0;

/** @param {HTMLFormElement} form */
function applyFilters(form) {
  clearTimeout(choosing);
  choosing = 0;
  const values = new URLSearchParams(/** @type {any} */ (new FormData(form)));
  for (const [name, value] of [...values]) if (!value) values.delete(name);
  history.replaceState(null, "", `${form.getAttribute("action")}?${values}`);
  void refresh();
}

document.addEventListener("input", (event) => {
  const form = event.target instanceof Element ? event.target.closest("form[data-live-form]") : null;
  if (!(form instanceof HTMLFormElement)) return;
  clearTimeout(choosing);
  choosing = setTimeout(() => applyFilters(form), 250);
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement)) return;
  if (form.dataset.postForm) {
    event.preventDefault();
    const fields = [...form.querySelectorAll("input")].map((input) => [input.name, input.type === "number" ? input.valueAsNumber : input.value]);
    void send(form, form.dataset.postForm, Object.fromEntries(fields));
  } else if (form.hasAttribute("data-live-form")) {
    event.preventDefault();
    applyFilters(form);
  }
});

let again = 0;
/** Show a part of the page that takes the daemon longer, and again soon while it says that some of it is to come. */
async function loadParts() {
  clearTimeout(again);
  for (const part of document.querySelectorAll("[data-part]")) {
    const answer = await fetch(String(part.getAttribute("data-part"))).catch(() => null);
    if (answer?.ok && !answer.redirected) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      part.replaceChildren(...fresh.body.childNodes);
    }
  }
  clearTimeout(again);
  if (document.querySelector("[data-again]")) again = setTimeout(() => void loadParts(), AGAIN_MS);
}

/** @param {HTMLElement} box @param {string} text */
function appendLog(box, text) {
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  const whole = (box.textContent ?? "") + text;
  box.textContent = whole.slice(-LONGEST_LOG);
  if (whole.length > LONGEST_LOG) showEarlier();
  if (atEnd) box.scrollTop = box.scrollHeight;
}

/** Say where the output is that the box does not show. */
function showEarlier() {
  document.getElementById("log-earlier")?.removeAttribute("hidden");
}

/** @param {HTMLElement} box Follow the last of what a job writes, at the end of the box as long as the reader is there. */
async function followLog(box) {
  let offset = -LOG_PIECE;
  let full = 0;
  let decoder = new TextDecoder();
  while (box.isConnected) {
    const answer = document.hidden
      ? null
      : await fetch(`${box.dataset.log}&offset=${offset}&limit=${LOG_PIECE}`).catch(() => null);
    const bytes = answer?.ok ? new Uint8Array(await answer.arrayBuffer()) : null;
    if (answer && bytes?.length) {
      const fromEnd = offset < 0;
      offset = Number(answer.headers.get("Muster-Next-Offset"));
      const cut = fromEnd && offset > bytes.length;
      if (cut) showEarlier();
      // A piece from within the output begins with the next line.
      appendLog(box, decoder.decode(cut ? bytes.subarray(bytes.indexOf(10) + 1) : bytes, { stream: true }));
      full = bytes.length < LOG_PIECE || fromEnd ? 0 : full + 1;
      if (full < MOST_LOG_PIECES) continue;
      offset = -LOG_PIECE;
      full = 0;
      decoder = new TextDecoder();
      box.textContent = "";
    } else if (bytes) offset = Number(answer?.headers.get("Muster-Next-Offset"));
    if (ENDED.includes(answer?.headers.get("Muster-Job-State") ?? "")) return;
    await new Promise((done) => setTimeout(done, LOG_PAUSE_MS));
  }
}

/** Follow each output on the page once: another one comes where a process other than the first ends the job. */
function followLogs() {
  for (const box of document.querySelectorAll("[data-log]:not([data-followed])")) {
    box.setAttribute("data-followed", "");
    void followLog(/** @type {HTMLElement} */ (box));
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && Date.now() - fetchedAt > LEAST_PAUSE_MS) void refresh();
});
document.addEventListener("muster:refreshed", () => {
  followLogs();
  void loadParts();
});
setInterval(tick, 1_000);
tick();
followLogs();
void loadParts();
follow();
