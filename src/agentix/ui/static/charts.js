// How long calls take: quantiles and distributions of the calls that were over last.

import { count, el, plural, quantile, seconds, svg } from "./format.js";

const MAX_GROUPS = 12;
const BINS_PER_DECADE = 4;
const MEASURES = [
  { name: "Held by the gateway", of: (call) => (call.sent_s === null ? null : call.sent_s - call.arrived_s) },
  { name: "Arrival to first token", of: (call) => (call.first_token_s === null ? null : call.first_token_s - call.arrived_s) },
  { name: "Arrival to end", of: (call) => call.over_s - call.arrived_s },
];

const GROUPS = { all: () => "all calls", class: (call) => call.program_class || "(no class)", engine: (call) => call.engine_id };

export function drawLatency(root, sample, calls, by) {
  const finished = calls.filter((call) => call.outcome === "finished");
  sample.textContent = `${plural(finished.length, "finished call")} of the last ${count(calls.length)}`;
  root.replaceChildren(
    el("div", { class: "figures" }, ...MEASURES.map((measure) => figure(measure, finished))),
    table(finished, by),
  );
}

function values(calls, measure) {
  return calls.map(measure.of).filter((value) => value !== null).sort((a, b) => a - b);
}

/** Counts by bins of equal width on a logarithmic axis: [from, to, count]. */
export function bins(sorted) {
  if (!sorted.length) return [];
  const place = (value) => Math.floor(BINS_PER_DECADE * Math.log10(Math.max(value, 1e-3)) + 1e-9);
  const first = place(sorted[0]);
  const last = place(sorted.at(-1));
  const found = Array.from({ length: last - first + 1 }, (_, i) => [
    10 ** ((first + i) / BINS_PER_DECADE),
    10 ** ((first + i + 1) / BINS_PER_DECADE),
    0,
  ]);
  for (const value of sorted) found[place(value) - first][2] += 1;
  return found;
}

function figure(measure, calls) {
  const sorted = values(calls, measure);
  const found = bins(sorted);
  const most = Math.max(1, ...found.map(([, , n]) => n));
  const width = 300;
  const height = 90;
  const step = width / Math.max(found.length, 8);
  const rects = found.map(([from, to, n], i) =>
    svg(
      "rect",
      { x: i * step + 1, y: height - (n / most) * height, width: step - 2, height: (n / most) * height },
      svg("title", {}, `${seconds(from)} to ${seconds(to)}: ${count(n)}`),
    ),
  );
  const quantiles = sorted.length
    ? `median ${seconds(quantile(sorted, 0.5))}, P95 ${seconds(quantile(sorted, 0.95))}, P99 ${seconds(quantile(sorted, 0.99))}`
    : "no values yet";
  const ends = found.length ? [el("span", {}, `≥ ${seconds(found[0][0])}`), el("span", {}, `< ${seconds(found.at(-1)[1])}`)] : [];
  return el(
    "figure",
    {},
    el("figcaption", {}, el("strong", {}, measure.name), ` ${quantiles}`),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${measure.name}: ${quantiles}` }, ...rects),
    el("div", { class: "ends" }, ...ends),
  );
}

function table(calls, by) {
  const found = new Map();
  for (const call of calls) {
    const name = GROUPS[by](call);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(call);
  }
  const largest = [...found].sort(([, a], [, b]) => b.length - a.length).slice(0, MAX_GROUPS);
  const quantiles = ["P50", "P95", "P99"];
  const rows = largest.map(([name, members]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", {}, count(members.length)),
      ...MEASURES.flatMap((measure) => {
        const sorted = values(members, measure);
        return [0.5, 0.95, 0.99].map((q) => el("td", {}, seconds(quantile(sorted, q))));
      }),
    ),
  );
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "Quantiles" },
    el(
      "table",
      { class: "quantiles" },
      el(
        "thead",
        {},
        el("tr", {}, el("td", {}), el("td", {}), ...MEASURES.map((m) => el("th", { colspan: 3, scope: "colgroup" }, m.name))),
        el("tr", {}, el("th", { scope: "col" }, by), el("th", { scope: "col" }, "calls"), ...MEASURES.flatMap(() => quantiles.map((q) => el("th", { scope: "col" }, q)))),
      ),
      el("tbody", {}, ...rows),
    ),
  );
}
