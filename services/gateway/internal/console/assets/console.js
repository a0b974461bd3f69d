"use strict";

// Keys: / searches, g and a letter goes to a page, ? shows the keys.
let went = 0;
document.addEventListener("keydown", (e) => {
  const at = document.activeElement;
  if (e.ctrlKey || e.metaKey || e.altKey || (at && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName))) return;
  if (e.key === "/") {
    const field = document.getElementById("search");
    if (field) { e.preventDefault(); field.focus(); field.select(); }
  } else if (e.key === "?") {
    const keys = document.getElementById("keys");
    if (!keys.open) keys.showModal();
  } else if (e.key === "g") {
    went = Date.now();
  } else if (Date.now() - went < 1500) {
    went = 0;
    const to = document.querySelector(`nav a[data-key="${CSS.escape(e.key)}"]`);
    if (to) to.click();
  }
});

// A click on a command copies it.
document.addEventListener("click", (e) => {
  const code = e.target.closest("code");
  if (!code || code.closest("a")) return;
  const said = document.getElementById("live");
  if (!navigator.clipboard) { getSelection().selectAllChildren(code); return; }
  navigator.clipboard.writeText(code.textContent).then(
    () => { said.textContent = "Copied."; }, () => { getSelection().selectAllChildren(code); });
});

// A map names the server of the square under the pointer, or of the one that the arrow keys chose; a click or Enter
// opens it.
const maps = new WeakMap();
function namesOf(map) {
  if (!maps.has(map)) {
    let last = "";
    maps.set(map, map.dataset.names.split("\n").map((e) => (last = last.slice(0, parseInt(e[0], 36)) + e.slice(1))));
  }
  return maps.get(map);
}

function choose(map, n) {
  const name = namesOf(map)[n], columns = Number(map.dataset.columns);
  let mark = map.querySelector("rect");
  if (!name) {
    mark?.remove();
    delete map.dataset.chosen;
    map.nextElementSibling.textContent = "";
    return;
  }
  if (!mark) {
    mark = document.createElementNS(map.namespaceURI, "rect");
    for (const side of ["width", "height"]) mark.setAttribute(side, 1);
    map.append(mark);
  }
  mark.setAttribute("x", n % columns);
  mark.setAttribute("y", Math.floor(n / columns) - 0.5);
  map.dataset.chosen = n;
  map.nextElementSibling.textContent = name;
}

function opens(map) {
  const name = namesOf(map)[map.dataset.chosen];
  if (name) location.assign("/console/servers/" + encodeURIComponent(name));
}

function point(e) {
  const map = e.target.closest("svg.map");
  if (!map) return null;
  const box = map.getBoundingClientRect(), columns = Number(map.dataset.columns), size = box.width / columns;
  const column = Math.min(Math.floor((e.clientX - box.left) / size), columns - 1);
  choose(map, Math.floor((e.clientY - box.top) / size) * columns + Math.max(column, 0));
  return map;
}
document.addEventListener("pointermove", point);
document.addEventListener("click", (e) => { const map = point(e); if (map) opens(map); });
document.addEventListener("keydown", (e) => {
  const map = e.target.closest("svg.map");
  if (!map) return;
  const columns = Number(map.dataset.columns), at = Number(map.dataset.chosen ?? 0);
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key];
  if (e.key === "Enter") opens(map);
  if (!by) return;
  e.preventDefault();
  const to = map.dataset.chosen === undefined ? 0 : at + by;
  if (namesOf(map)[to]) choose(map, to);
});

// The parts of a page follow the ledger while the page is shown: a stream says that something was recorded, and the
// page is fetched again. A part is replaced when it differs from what was sent before, unless its reader is in it: what
// a reader opened or chose is no difference.
const sent = new WeakMap();
for (const part of document.querySelectorAll("[data-live]")) sent.set(part, part.innerHTML);
let stream = null, failures = 0, again = 0, busy = false, due = false;
const state = document.getElementById("live");
const follows = document.querySelector("[data-live]") && document.body.dataset.still === undefined;

// kept reports whether somebody is at a part: it is not replaced then.
function kept(part) {
  const inputs = [...part.querySelectorAll("input:not([type=hidden]), select")];
  const picked = getSelection();
  return part.contains(document.activeElement) ||
    inputs.some((i) => i.tagName === "INPUT" && i.value !== i.defaultValue) ||
    part.querySelector("form") && part.matches(":hover") || part.querySelector("details.sure[open]") ||
    !picked.isCollapsed && part.contains(picked.anchorNode);
}

async function refresh() {
  if (busy) { due = true; return; }
  busy = true;
  const begun = Date.now();
  let waits = 0;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Refresh": "1" } });
    if (answer.redirected && answer.url.includes("/console/login")) { location.reload(); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (!next || next.innerHTML === sent.get(part)) continue;
      if (kept(part)) { waits++; continue; }
      part.innerHTML = next.innerHTML;
      sent.set(part, next.innerHTML);
    }
    const asOf = document.getElementById("asof"), now = fresh.getElementById("asof");
    if (waits > 0) {
      state.textContent = "Live; a part that you are at has changed.";
      due = true;
    } else if (asOf && now) { asOf.textContent = now.textContent; asOf.dateTime = now.dateTime; }
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale");
  } finally {
    busy = false;
    // A page that takes long to make is made less often, and many tabs do not ask at once.
    if (due) { due = false; setTimeout(refresh, 3 * (Date.now() - begun) + 500 + Math.random() * 1000); }
  }
}

// follow opens the stream, and opens it again after any end: after a refusal, too, which EventSource would give up on.
function follow() {
  if (stream || document.hidden || !follows) return;
  stream = new EventSource("/console/live");
  stream.addEventListener("open", () => {
    if (failures > 0) refresh();
    failures = 0;
    state.textContent = "Live.";
  });
  stream.addEventListener("changed", refresh);
  stream.addEventListener("end", () => location.reload());
  stream.addEventListener("error", () => {
    close();
    failures++;
    state.textContent = "Not live: the connection was lost. Trying again.";
    document.body.classList.add("stale");
    refresh(); // it leads to the page for signing in when the session is over
    clearTimeout(again);
    again = setTimeout(follow, Math.random() * Math.min(30000, 1000 * 2 ** Math.min(failures, 5)));
  });
}

function close() {
  if (stream) stream.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { close(); return; }
  if (follows) refresh();
  follow();
});
addEventListener("pagehide", close);
follow();
