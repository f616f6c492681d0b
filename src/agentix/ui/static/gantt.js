// Who was served when: calls as bars, in lanes by engine or by program. Drawn on a canvas, since there may be thousands.

import { count, plural, seconds } from "./format.js";

const LANE_PX = 14;
const GAP_PX = 8;
const LABEL_PX = 150;
const AXIS_PX = 22;
const MAX_PROGRAMS = 40;
const MAX_LANES = 32; // of one engine or program; what does not fit is counted
const MAX_HELD_LANES = 10;
const BRIEF_S = 0.05; // who waits less has not been held

/** Bars of calls that are over and of those under way: moments on the gateway's clock, null where it never came to that. */
export function bars(store, from, now, keep) {
  const over = store.calls
    .filter((call) => call.over_s >= from && call.arrived_s <= now && keep(call.program_id, call.program_class, call.engine_id, call.tenant))
    .map((call) => ({
      program: call.program_id,
      engine: call.engine_id,
      call: call.call_id,
      start: call.arrived_s,
      sent: call.sent_s,
      first: call.first_token_s,
      end: call.over_s,
      outcome: call.outcome,
    }));
  const active = store
    .active()
    .filter((call) => call.arrived <= now && keep(call.program.id, call.program.class, call.engine_id, call.program.tenant))
    .map((call) => ({
      program: call.program.id,
      engine: call.engine_id,
      call: call.call_id,
      start: call.arrived,
      sent: call.sentAt,
      first: call.firstAt,
      end: now,
      outcome: null,
    }));
  return [...over, ...active].sort((a, b) => a.start - b.start);
}

/** Give each bar the first lane that is free from where it is drawn on; gives how many lanes there are. */
export function pack(items, most = Infinity) {
  const free = [];
  for (const item of items.sort((a, b) => a.from - b.from)) {
    let lane = free.findIndex((end) => end <= item.from);
    if (lane < 0) lane = free.length;
    if (lane >= most) {
      item.lane = null;
      continue;
    }
    free[lane] = item.to;
    item.lane = lane;
  }
  return free.length;
}

/** Lanes with a name: of each engine those inside it, and those held for it; or of each program all its calls. */
function groups(items, by) {
  const found = new Map();
  for (const item of items) {
    if (!found.has(item[by])) found.set(item[by], []);
    found.get(item[by]).push(item);
  }
  if (by === "engine") {
    return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([name, members]) => [
      group(name, members.filter((item) => item.sent !== null), (item) => [item.sent, item.end], MAX_LANES),
      ...(members.some(wasHeld)
        ? [group("   held", members.filter(wasHeld), (item) => [item.start, item.sent ?? item.end], MAX_HELD_LANES)]
        : []),
    ]);
  }
  const latest = [...found].sort(([, a], [, b]) => b.at(-1).start - a.at(-1).start).slice(0, MAX_PROGRAMS);
  latest.sort(([, a], [, b]) => a[0].start - b[0].start);
  return latest.map(([name, members]) => group(name, members, (item) => [item.start, item.end], MAX_LANES));
}

function group(name, items, extent, most) {
  const members = items.map((item) => {
    const [from, to] = extent(item);
    return { ...item, from, to };
  });
  const lanes = Math.max(1, pack(members, most));
  return { name, members, lanes, numHidden: members.filter((item) => item.lane === null).length };
}

function wasHeld(item) {
  return (item.sent ?? item.end) - item.start > BRIEF_S;
}

export class Gantt {
  constructor(canvas, hover) {
    this.canvas = canvas;
    this._hover = hover;
    this._boxes = [];
    canvas.addEventListener("mousemove", (event) => this._point(event.offsetX, event.offsetY));
    canvas.addEventListener("mouseleave", () => this._tell(null));
  }

  draw(items, by, from, now) {
    const found = groups(items, by);
    const height = AXIS_PX + found.reduce((sum, group) => sum + group.lanes * LANE_PX + GAP_PX, GAP_PX);
    const width = this.canvas.parentElement.clientWidth;
    const pen = this._pen(width, Math.max(height, 120));
    const x = (moment) => LABEL_PX + ((Math.max(moment, from) - from) / (now - from)) * (width - LABEL_PX - 8);
    this._axis(pen, x, from, now, height);
    this._boxes = [];
    let y = AXIS_PX + GAP_PX;
    for (const group of found) {
      this._label(pen, group, y);
      if (by === "program") this._gaps(pen, group, x, y);
      for (const item of group.members) if (item.lane !== null) this._bar(pen, item, x, y + item.lane * LANE_PX);
      y += group.lanes * LANE_PX + GAP_PX;
    }
    const text = `${plural(items.length, "call")} of ${plural(new Set(items.map((item) => item[by])).size, by)} in the last ${seconds(now - from)}`;
    this.canvas.setAttribute("aria-label", `Timeline: ${text}. The table below has the latest ones.`);
    if (!items.length) this._write(pen, "no calls in this window", LABEL_PX, AXIS_PX + 30);
  }

  _pen(width, height) {
    const scale = window.devicePixelRatio || 1;
    const { canvas } = this;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this._ink = inks(canvas);
    return pen;
  }

  _axis(pen, x, from, now, height) {
    const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900].find((s) => (now - from) / s <= 8) ?? 900;
    pen.strokeStyle = this._ink.line;
    pen.lineWidth = 1;
    for (let ago = 0; ago <= now - from; ago += step) {
      const at = Math.round(x(now - ago)) + 0.5;
      pen.beginPath();
      pen.moveTo(at, AXIS_PX);
      pen.lineTo(at, height);
      pen.stroke();
      pen.textAlign = ago ? "center" : "right";
      this._write(pen, ago ? `−${seconds(ago)}` : "now", at, AXIS_PX / 2);
    }
    pen.textAlign = "left";
  }

  _write(pen, text, x, y) {
    pen.fillStyle = this._ink.muted;
    pen.fillText(text, x, y);
  }

  _label(pen, group, y) {
    const hidden = group.numHidden ? ` (+${count(group.numHidden)})` : "";
    let text = group.name + hidden;
    while (pen.measureText(text).width > LABEL_PX - 16 && text.length > 4) text = `${text.slice(0, -2)}…`.replace("……", "…");
    pen.fillStyle = this._ink.text;
    pen.fillText(text, 4, y + LANE_PX / 2);
  }

  /** The time between a program's calls, in which its tools run. */
  _gaps(pen, group, x, y) {
    pen.strokeStyle = this._ink.muted;
    pen.setLineDash([2, 3]);
    let end = null;
    for (const item of group.members) {
      if (end !== null && item.start > end) {
        pen.beginPath();
        pen.moveTo(x(end), y + LANE_PX / 2);
        pen.lineTo(x(item.start), y + LANE_PX / 2);
        pen.stroke();
      }
      end = Math.max(end ?? item.end, item.end);
    }
    pen.setLineDash([]);
  }

  _bar(pen, item, x, y) {
    const h = LANE_PX - 3;
    const sent = item.sent ?? item.end;
    const first = item.first ?? item.end;
    const part = (start, end, paint) => {
      const [a, b] = [Math.max(start, item.from), Math.min(end, item.to)];
      if (b > a) paint(x(a), Math.max(1, x(b) - x(a)));
    };
    part(item.start, sent, (left, w) => {
      pen.strokeStyle = this._ink.held;
      pen.strokeRect(left + 0.5, y + 0.5, Math.max(1, w - 1), h - 1);
    });
    part(sent, first, (left, w) => fill(pen, this._ink.sent, left, y, w, h));
    part(first, item.end, (left, w) => fill(pen, this._ink.answering, left, y, w, h));
    const left = x(item.from);
    const right = Math.max(left + 2, x(item.to));
    if (item.to === item.end && item.outcome && item.outcome !== "finished") {
      pen.strokeStyle = this._ink.failed;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(right - 5, y + 2);
      pen.lineTo(right + 3, y + h - 2);
      pen.moveTo(right + 3, y + 2);
      pen.lineTo(right - 5, y + h - 2);
      pen.stroke();
      pen.lineWidth = 1;
    }
    this._boxes.push({ left, right, top: y, bottom: y + h, item });
  }

  _point(x, y) {
    const hit = this._boxes.find((box) => x >= box.left - 1 && x <= box.right + 1 && y >= box.top && y <= box.bottom);
    this._tell(hit?.item ?? null);
  }

  _tell(item) {
    this._hover.textContent = item ? describe(item) : "";
  }
}

export function describe(item) {
  const sent = item.sent ?? item.end;
  const first = item.first ?? item.end;
  const parts = [`held ${seconds(sent - item.start)}`, `no answer yet ${seconds(first - sent)}`, `answering ${seconds(item.end - first)}`];
  return `${item.program} · call ${item.call} · ${item.engine} · ${parts.join(", ")} · ${item.outcome ?? "under way"}`;
}

function fill(pen, ink, x, y, w, h) {
  pen.fillStyle = ink;
  pen.fillRect(x, y, w, h);
}

function inks(node) {
  const probe = document.createElement("i");
  node.parentElement.append(probe);
  const names = ["text", "muted", "line", "held", "sent", "answering", "failed"];
  const found = names.map((name) => {
    probe.className = `ink-${name}`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(found);
}
