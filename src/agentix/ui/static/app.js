// The page: one poll a second, and four views of what it knows.

import { act } from "./actions.js";
import { NeedsKey, hasKey, useKey } from "./api.js";
import { drawLatency } from "./charts.js";
import { Detail } from "./detail.js";
import { drawEngines, drawLevels } from "./engines.js";
import { count, el, seconds } from "./format.js";
import { Gantt, bars } from "./gantt.js";
import { Store } from "./store.js";
import { Table } from "./table.js";

const PERIOD_MS = 1000;
const LONGEST_WAIT_MS = 10_000;
const NUM_LATEST = 50;
const VIEWS = ["programs", "timeline", "engines", "latency"];

const $ = (id) => document.getElementById(id);
const store = new Store();
const table = new Table($("table"), { onOpen: (program) => openDetail(program), onAct: (name, program) => steer(name, program) });
const detail = new Detail($("detail"), { onAct: (name, program) => steer(name, program), onClose: () => $("table").focus() });
const gantt = new Gantt($("gantt"), $("hover"));
let view = "programs";
let failures = 0;
let timer = 0;

// --- reading ---------------------------------------------------------------------------------------------------------

async function poll() {
  clearTimeout(timer);
  if (document.hidden || store.frozenAt !== null) return; // whatever changes meanwhile comes with the next poll
  try {
    await store.poll();
    failures = 0;
    tellLive("●", "live");
    const known = detail.program && store.programs.get(detail.program.key);
    await detail.refresh(known, store.now());
    draw();
  } catch (error) {
    if (error instanceof NeedsKey) {
      askForKey(error);
      return;
    }
    failures += 1;
    tellLive("✕", `no answer: ${error.message}`);
  }
  timer = setTimeout(poll, Math.min(LONGEST_WAIT_MS, PERIOD_MS * 2 ** Math.min(failures, 4)));
}

function tellLive(sign, text) {
  const live = $("live");
  live.dataset.sign = sign;
  live.querySelector(".glyph").textContent = sign;
  // Said only when it changes, or a screen reader would say it every second.
  if (live.querySelector(".text").textContent !== text) live.querySelector(".text").textContent = text;
}

function askForKey(error) {
  const dialog = $("key-dialog");
  tellLive("○", "waiting for a key");
  $("key-wrong").textContent = hasKey() ? error.message : "";
  $("key").value = "";
  if (!dialog.open) dialog.showModal();
  dialog.addEventListener(
    "close",
    () => {
      if ($("key").value) useKey($("key").value);
      poll();
    },
    { once: true },
  );
}

// --- drawing ---------------------------------------------------------------------------------------------------------

function draw() {
  const now = store.now();
  drawTotals();
  fillChoices($("class"), store.classes());
  const tenants = store.tenants().filter(Boolean);
  $("tenant-label").hidden = !tenants.length;
  fillChoices($("tenant"), tenants);
  const programs = [...store.programs.values()];
  const keep = filter();
  const shown = programs.filter(keep);
  $("count").textContent = shown.length === programs.length ? "" : `${count(shown.length)} of ${count(programs.length)}`;
  if (view === "programs") drawPrograms(shown, now);
  else if (view === "timeline") drawTimeline(now);
  else if (view === "engines") drawEngines($("engines"), store, now);
  else drawLatency($("charts"), $("sample"), callsKept(), $("by").value);
}

function drawTotals() {
  const calls = store.active();
  const held = calls.filter((call) => call.state === "held").length;
  const healthy = store.engines.filter((engine) => engine.healthy).length;
  const facts = [
    ["programs", count(store.programs.size)],
    ["active calls", count(calls.length)],
    ["held", count(held)],
    ...(store.engines.length ? [["engines healthy", `${healthy} of ${store.engines.length}`]] : []),
  ];
  $("totals").replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

let columnsWithout = "";

function drawPrograms(shown, now) {
  const all = [...store.programs.values()];
  const without = new Set();
  if (!all.some((program) => program.tenant)) without.add("tenant");
  if (!all.some((program) => program.level !== null)) without.add("level");
  if (!all.some((program) => program.weight !== null && program.weight !== 1)) without.add("weight");
  const name = [...without].join();
  if (name !== columnsWithout || !table.root.hasAttribute("aria-colcount")) table.showColumns(without);
  columnsWithout = name;
  drawLevels($("levels"), shown.flatMap((program) => program.calls));
  table.update(shown, now);
}

function drawTimeline(now) {
  const keep = filter();
  const from = now - Number($("window").value);
  const keepCall = (program, kind, engine, tenant) =>
    keep({ text: `${program} ${kind} ${engine} ${tenant ?? ""}`.toLowerCase(), class: kind, tenant: tenant ?? "", state: null });
  const items = bars(store, from, now, keepCall);
  gantt.draw(items, $("lanes").value, from, now);
  if (!$("calls").closest("details").open) return;
  const head = ["Program", "Call", "Engine", "Arrived", "Held", "To first token", "Whole", "Outcome"];
  const rows = items
    .slice(-NUM_LATEST)
    .reverse()
    .map((item) => {
      const held = (item.sent ?? item.end) - item.start;
      const first = item.first === null ? null : item.first - item.start;
      const cells = [item.call, item.engine, `${seconds(now - item.start)} ago`, seconds(held), seconds(first), seconds(item.end - item.start), item.outcome ?? "under way"];
      return el("tr", {}, el("th", { scope: "row" }, item.program), ...cells.map((text) => el("td", {}, text)));
    });
  $("calls").replaceChildren(
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows),
  );
}

function fillChoices(select, values) {
  const known = [...select.options].slice(1).map((option) => option.value);
  const named = values.filter(Boolean);
  if (known.join("\n") === named.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(el("option", { value: "" }, "all"), ...named.map((value) => el("option", { value }, value)));
  select.value = named.includes(chosen) ? chosen : "";
}

/** Whether a program is to be seen; a state of null is any. */
function filter() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [kind, tenant, state] = ["class", "tenant", "state"].map((id) => $(id).value);
  return (program) =>
    words.every((word) => program.text.includes(word)) &&
    (!kind || program.class === kind) &&
    (!tenant || program.tenant === tenant) &&
    (!state || program.state === null || program.state === state);
}

function callsKept() {
  const keep = filter();
  return store.calls.filter((call) =>
    keep({
      text: `${call.program_id} ${call.program_class} ${call.engine_id} ${call.tenant}`.toLowerCase(),
      class: call.program_class,
      tenant: call.tenant,
      state: null,
    }),
  );
}

// --- acting ----------------------------------------------------------------------------------------------------------

function openDetail(program) {
  detail.open(program);
  detail.refresh(store.programs.get(program.key), store.now()); // and with every poll
}

async function steer(name, program) {
  try {
    const done = await act(name, program);
    if (done) toast(done);
  } catch (error) {
    toast(error.message);
  }
  poll();
}

function toast(text) {
  $("toast").textContent = text;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => ($("toast").textContent = ""), 6000);
}

function show(name) {
  view = name;
  for (const other of VIEWS) {
    const tab = $(`tab-${other}`);
    tab.setAttribute("aria-selected", other === name);
    tab.tabIndex = other === name ? 0 : -1;
    $(other).hidden = other !== name;
  }
  draw();
}

const THEMES = ["system", "light", "dark"];

function theme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
  localStorage.setItem("agentix-theme", name);
  draw();
}

function freeze() {
  const frozen = store.frozenAt === null;
  store.freeze(frozen);
  $("freeze").setAttribute("aria-pressed", frozen);
  tellLive(frozen ? "‖" : "○", frozen ? "frozen" : "connecting");
  poll();
}

// --- wiring ----------------------------------------------------------------------------------------------------------

for (const name of VIEWS) $(`tab-${name}`).addEventListener("click", () => show(name));
$("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  show(VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length]);
  $(`tab-${view}`).focus();
});
for (const id of ["find", "class", "tenant", "state", "lanes", "window", "by"]) $(id).addEventListener("input", draw);
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("calls").closest("details").addEventListener("toggle", draw);
$("freeze").addEventListener("click", freeze);
$("keys").addEventListener("click", () => $("help").showModal());
$("theme").addEventListener("click", () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("resize", () => view === "timeline" && draw());
document.addEventListener("visibilitychange", poll);
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const number = Number(event.key);
  if (number >= 1 && number <= VIEWS.length) show(VIEWS[number - 1]);
  else if (event.key === "/") $("find").focus();
  else if (event.key === "f") freeze();
  else if (event.key === "?") $("help").showModal();
  else if (event.key === "Escape") detail.close();
  else return;
  event.preventDefault();
});

theme(THEMES.includes(localStorage.getItem("agentix-theme")) ? localStorage.getItem("agentix-theme") : "system");
poll();
