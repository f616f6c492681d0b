// Each engine: its health, its load, how much of its prompts comes from the prefix cache, who is next and why; and the levels.

import { SIGNS, count, el, percent, plural, seconds, svg } from "./format.js";

const NUM_NEXT = 5;

export function drawEngines(root, store, now) {
  const active = groupBy(store.active());
  const cards = store.engines.map((engine) => card(engine, active.get(engine.id) ?? [], store, now));
  root.replaceChildren(...(cards.length ? cards : [el("p", { class: "none" }, "engines are shown to tenants with admin = true")]));
}

function groupBy(calls) {
  const found = new Map();
  for (const call of calls) found.set(call.engine_id, [...(found.get(call.engine_id) ?? []), call]);
  return found;
}

function condition(engine) {
  if (engine.draining) return ["◌", "draining"];
  if (!engine.healthy) return ["✕", "unhealthy"];
  if (engine.breaker && engine.breaker !== "closed") return ["!", `breaker ${engine.breaker}`];
  return ["●", "healthy"];
}

function order(engine) {
  const tier = engine.tier ?? (engine.program_scheduling ? 2 : null);
  const words = { 0: "the gateway orders its calls", 1: "ordered by the gateway, and by priority inside", 2: "ordered by program inside" };
  return words[tier] ? `tier ${tier}: ${words[tier]}` : "order is the engine's own";
}

function card(engine, calls, store, now) {
  const held = calls.filter((call) => call.state === "held");
  const recent = store.calls.filter((call) => call.engine_id === engine.id && call.cached_tokens !== null && call.prompt_tokens);
  const cached = recent.reduce((sum, call) => sum + call.cached_tokens, 0);
  const prompt = recent.reduce((sum, call) => sum + call.prompt_tokens, 0);
  const [sign, word] = condition(engine);
  const limit = engine.limit ? ` of ${count(engine.limit)}` : "";
  return el(
    "article",
    { class: "engine", "data-condition": word },
    el("h2", {}, engine.id),
    el("p", { class: "condition" }, `${sign} ${word} · ${order(engine)}`),
    el(
      "dl",
      {},
      ...fact("In the engine", `${count(engine.num_calls)}${limit}`),
      ...fact("Held for it", count(held.length)),
      ...fact("Prefix hit", recent.length ? percent(cached, prompt) : "–", `of ${plural(prompt, "prompt token")} in ${plural(recent.length, "call")}`),
    ),
    sparkline(store.load.get(engine.id) ?? [], engine.id),
    el("h3", {}, "Next in line"),
    nextInLine(held, now),
  );
}

function fact(name, value, title) {
  return [el("dt", {}, name), el("dd", { title }, value)];
}

function nextInLine(held, now) {
  const first = held
    .filter((call) => call.position)
    .sort((a, b) => a.position - b.position)
    .slice(0, NUM_NEXT);
  if (!first.length) return el("p", { class: "none" }, held.length ? `${SIGNS.held} ${plural(held.length, "call")} held` : "nobody waits at the gateway");
  return el(
    "ol",
    {},
    ...first.map((call) =>
      el("li", { value: call.position }, el("strong", {}, call.program.id), ` ${seconds(now - call.arrived)} · ${call.waits_for ?? `level ${call.level}`}`),
    ),
  );
}

function sparkline(samples, id) {
  const most = Math.max(1, ...samples);
  const width = 240;
  const height = 36;
  const step = width / 119;
  const left = width - (samples.length - 1) * step;
  const points = samples.map((n, i) => `${(left + i * step).toFixed(1)},${(height - 1 - (n / most) * (height - 4)).toFixed(1)}`);
  const label = `Calls in ${id} over the last ${plural(samples.length, "second")}: now ${samples.at(-1) ?? 0}, at most ${Math.max(0, ...samples)}`;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "spark", role: "img", "aria-label": label, preserveAspectRatio: "none" },
    svg("polyline", { points: points.join(" ") }),
  );
}

/** How many active calls stand at each level, and how many of them are held. */
export function drawLevels(root, calls) {
  const found = new Map();
  for (const call of calls) {
    const level = call.level ?? call.program.level;
    const at = found.get(level) ?? { all: 0, held: 0 };
    at.all += 1;
    at.held += call.state === "held";
    found.set(level, at);
  }
  const most = Math.max(1, ...[...found.values()].map((at) => at.all));
  const levels = [...found].sort(([a], [b]) => (a ?? 99) - (b ?? 99));
  const rows = levels.map(([level, at]) => {
    const name = level === null ? "In engines" : `Level ${level}`;
    const bar = (n, name) => svg("rect", { class: name, x: name === "held" ? ((at.all - at.held) / most) * 100 : 0, y: 0, height: 8, width: (n / most) * 100 });
    return el(
      "div",
      { class: "level" },
      el("span", { class: "name" }, name),
      svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(at.all - at.held, "running"), bar(at.held, "held")),
      el("span", { class: "num" }, at.held ? `${count(at.all)}, ${count(at.held)} held` : count(at.all)),
    );
  });
  root.replaceChildren(...(rows.length ? rows : [el("p", { class: "none" }, "no active calls")]));
}
