// What the page knows: programs, calls and engines, kept up to date from what has changed. Times are on the gateway's clock.

import { get } from "./api.js";

const MAX_CALLS = 2000;
const MAX_SAMPLES = 120;
const RANK = { answering: 0, sent: 1, held: 2, paused: 3, idle: 4, ended: 5 };

export class Store {
  constructor() {
    this.programs = new Map();
    this.calls = [];
    this.engines = [];
    this.load = new Map(); // engine → calls in flight, one sample a poll
    this.version = "";
    this.frozenAt = null;
    this._since = "";
    this._after = "";
    this._clock = 0;
    this._heardAt = 0;
  }

  /** The gateway's time now, in seconds. */
  now() {
    return this.frozenAt ?? this._clock + (performance.now() - this._heardAt) / 1000;
  }

  freeze(frozen) {
    this.frozenAt = null;
    this.frozenAt = frozen ? this.now() : null;
  }

  async poll() {
    const [changes, calls, health] = await Promise.all([
      this._changes(),
      get(`v1/calls?after=${this._after}`),
      get("health"),
    ]);
    for (const answer of changes) this._takeChanges(answer);
    this._takeCalls(calls);
    this._takeHealth(health);
  }

  async _changes() {
    const answers = [];
    let since = this._since;
    do {
      const answer = await get(`v1/changes?since=${since}`);
      answers.push(answer);
      since = answer.next;
    } while (answers.at(-1).has_more);
    return answers;
  }

  _takeChanges(answer) {
    this._since = answer.next;
    this._clock = answer.now_s;
    this._heardAt = performance.now();
    if (answer.complete) this.programs.clear();
    for (const gone of answer.gone) this.programs.delete(keyOf(gone));
    for (const row of answer.data) {
      const program = new Program(row, answer.now_s);
      program.keepMoments(this.programs.get(program.key), answer.now_s);
      this.programs.set(program.key, program);
    }
  }

  _takeCalls(answer) {
    const known = this._after.split(".")[0];
    if (known && !answer.next.startsWith(`${known}.`)) this.calls = []; // another life of the gateway, another clock
    this._after = answer.next;
    if (answer.data.length) this.calls = [...this.calls, ...answer.data].slice(-MAX_CALLS);
  }

  _takeHealth(health) {
    this.engines = health.engines ?? []; // which a tenant may not see
    this.version = health.version;
    const ids = new Set(this.engines.map((engine) => engine.id));
    for (const id of this.load.keys()) if (!ids.has(id)) this.load.delete(id);
    for (const engine of this.engines) {
      const samples = this.load.get(engine.id) ?? [];
      samples.push(engine.num_calls);
      this.load.set(engine.id, samples.slice(-MAX_SAMPLES));
    }
  }

  classes() {
    return [...new Set([...this.programs.values()].map((program) => program.class))].sort();
  }

  tenants() {
    return [...new Set([...this.programs.values()].map((program) => program.tenant))].sort();
  }

  /** Active calls of all programs. */
  active() {
    return [...this.programs.values()].flatMap((program) => program.calls);
  }
}

export function keyOf(row) {
  return `${row.tenant ?? ""}\u001f${row.id}`;
}

/** A row of the process table, with what the views need of it worked out once. */
export class Program {
  constructor(row, now) {
    this.key = keyOf(row);
    this.id = row.id;
    this.tenant = row.tenant ?? "";
    this.class = row.class;
    this.weight = row.weight ?? null;
    this.started = now - row.age_s;
    this.service = row.service_s;
    this.waited = row.waiting_s;
    this.done = row.num_finished;
    this.aborted = row.num_aborted;
    this.idleSince = row.since_last_completion_s === null ? this.started : now - row.since_last_completion_s;
    this.calls = Object.entries(row.threads).flatMap(([thread, calls]) =>
      calls.map((call) => ({ ...call, ...told(call), thread, arrived: now - call.age_s, program: this })),
    );
    this.numThreads = Object.keys(row.threads).length;
    const states = this.calls.map((call) => call.state).sort((a, b) => RANK[a] - RANK[b]);
    this.state = row.paused ? "paused" : (states[0] ?? (row.ended ? "ended" : "idle"));
    this.rank = RANK[this.state];
    const engines = [...new Set(this.calls.map((call) => call.engine_id))];
    this.engine = engines.join(", ") || row.home_engine_id || row.engine_ids.at(-1) || "";
    this.level = least(this.calls.map((call) => call.level ?? row.level));
    const held = this.calls.filter((call) => call.state === "held");
    this.heldSince = held.map((call) => call.arrived);
    this.next = held.filter((call) => call.position).sort((a, b) => a.position - b.position)[0] ?? null;
    this.reason = (this.next ?? held[0])?.waits_for ?? "";
    this.text = `${this.id} ${this.class} ${this.engine} ${this.tenant}`.toLowerCase();
  }

  /** A row tells how long ago a call has come, not when it went to its engine: that is when we saw it. */
  keepMoments(before, now) {
    for (const call of this.calls) {
      const old = before?.calls.find((other) => other.call_id === call.call_id);
      call.sentAt = call.state === "held" ? null : old ? (old.sentAt ?? now) : call.arrived;
      call.firstAt = call.state !== "answering" ? null : old ? (old.firstAt ?? now) : call.sentAt;
    }
  }

  age(now) {
    return Math.max(0, now - this.started);
  }

  /** Time that calls which are over have waited, and that those held now wait. */
  waiting(now) {
    return this.heldSince.reduce((sum, since) => sum + Math.max(0, now - since), this.waited);
  }
}

/** Its state, and what it waits for without saying again that it is held. */
function told(call) {
  return { state: call.state ?? (call.answering ? "answering" : "sent"), waits_for: call.waits_for?.replace(/^held: /, "") };
}

function least(values) {
  const known = values.filter((value) => value !== undefined && value !== null);
  return known.length ? Math.min(...known) : null;
}
