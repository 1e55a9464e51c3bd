// @ts-check
"use strict";

/** @param {string | null} wanted @returns {string} an address of this site, as nothing else is to be trusted */
function target(wanted) {
  const url = new URL(wanted ?? "/", location.origin);
  return url.origin === location.origin ? url.pathname + url.search : "/";
}

/** @param {Record<string, string>} secret */
async function logIn(secret) {
  const to = target(new URLSearchParams(location.search).get("to"));
  const problem = /** @type {HTMLElement} */ (document.getElementById("problem"));
  const answer = await fetch("/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(secret),
  });
  if (answer.ok) location.replace(to);
  else problem.textContent = (await answer.json()).error.message;
}

document.getElementById("login")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  void logIn({ token: String(new FormData(form).get("token")) });
});

// Behind the #, a code is sent to no server by the browser and stands in no log.
const code = location.hash.slice(1);
if (code) {
  history.replaceState(null, "", location.pathname + location.search);
  void logIn({ code });
}
