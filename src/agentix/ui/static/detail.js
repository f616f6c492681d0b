// One program beside the table: its account, its active calls, and why each is where it is.

import { get, programPath } from "./api.js";
import { SIGNS, count, el, seconds } from "./format.js";
import { Program } from "./store.js";

const BUTTONS = [["pause", "Pause"], ["resume", "Resume"], ["weight", "Weight…"], ["cancel", "Cancel calls"]];

export class Detail {
  constructor(root, { onAct, onClose }) {
    this.root = root;
    this.program = null;
    this._onAct = onAct;
    this._onClose = onClose;
    this._facts = el("dl");
    this._calls = el("div", { class: "calls" });
    root.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  open(program) {
    this.program = program;
    const close = el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => this.close() }, "×");
    const buttons = BUTTONS.map(([name, label]) =>
      el("button", { type: "button", "data-act": name, onclick: () => this._onAct(name, this.program) }, label),
    );
    this.root.replaceChildren(
      el("header", {}, el("h2", {}, program.id), close),
      el("div", { class: "buttons" }, ...buttons),
      this._facts,
      el("h3", {}, "Active calls"),
      this._calls,
    );
    this.root.hidden = false;
    this.show(program, 0);
  }

  close() {
    if (this.root.hidden) return;
    this.root.hidden = true;
    this.program = null;
    this._onClose();
  }

  /** Ask for the row: it has all places in queues, of which the table knows the first ones alone. */
  async refresh(known, now) {
    if (!this.program) return;
    if (!known) {
      this.close();
      return;
    }
    const { key } = this.program;
    const row = known.state === "idle" ? null : await get(programPath(known)).catch(() => null);
    if (this.program?.key === key) this.show(row ? new Program(row, now) : known, now);
  }

  show(program, now) {
    this.program = program;
    const facts = [
      ["State", `${SIGNS[program.state]} ${program.state}`],
      ["Class", program.class || "–"],
      ...(program.tenant ? [["Tenant", program.tenant]] : []),
      ["Age", now ? seconds(program.age(now)) : "–"],
      ["Attained service", seconds(program.service)],
      ["Waiting", seconds(now ? program.waiting(now) : program.waited)],
      ["Level", program.level ?? "–"],
      ["Weight", program.weight ?? "–"],
      ["Engine", program.engine || "–"],
      ["Calls", `${count(program.done)} finished, ${count(program.aborted)} aborted`],
    ];
    this._facts.replaceChildren(...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
    const calls = program.calls.map((call) => describeCall(call, now));
    this._calls.replaceChildren(...(calls.length ? calls : [el("p", { class: "none" }, "none")]));
    for (const button of this.root.querySelectorAll("[data-act]")) {
      const { act } = button.dataset;
      button.hidden = (act === "pause" && program.state === "paused") || (act === "resume" && program.state !== "paused");
      button.disabled = act === "cancel" && !program.calls.length;
    }
  }
}

function describeCall(call, now) {
  const place = call.position ? `, #${call.position} in line` : "";
  const level = call.level === undefined || call.level === null ? "" : `, level ${call.level}`;
  return el(
    "article",
    { "data-state": call.state },
    el("p", { class: "title" }, `${SIGNS[call.state]} ${call.call_id}`),
    el("p", {}, `${call.state}${level}${place} · ${call.engine_id} · ${now ? seconds(now - call.arrived) : ""}`),
    call.thread ? el("p", {}, `thread ${call.thread}`) : null,
    call.state === "held" ? el("p", { class: "why" }, `waits: ${call.waits_for}`) : null,
    call.routed_because ? el("p", {}, `on this engine because: ${call.routed_because}`) : null,
  );
}
