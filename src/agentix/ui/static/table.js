// The process table as a grid. Only the rows on the screen exist, so that thousands of programs cost what some dozens do.

import { SIGNS, count, el, seconds } from "./format.js";

const ROW_PX = 28;
const SPARE = 6;
const NEAR = 20;

// How a column reads, what it sorts by, and whether it is a number. `hide`: left out when there is little room, 1 first.
const COLUMNS = [
  { id: "id", label: "Program", text: (p) => p.id, value: (p) => p.id },
  { id: "class", label: "Class", text: (p) => p.class, value: (p) => p.class, hide: 3 },
  { id: "tenant", label: "Tenant", text: (p) => p.tenant, value: (p) => p.tenant, hide: 2 },
  { id: "state", label: "State", text: (p) => `${SIGNS[p.state]} ${p.state}`, value: (p) => p.rank },
  { id: "level", label: "Level", text: (p) => p.level ?? "", value: (p) => p.level ?? 99, num: true, hide: 3 },
  { id: "calls", label: "Calls", title: "Active calls", text: (p) => p.calls.length || "", value: (p) => p.calls.length, num: true, hide: 2 },
  { id: "threads", label: "Threads", title: "Threads with active calls", text: (p) => p.numThreads || "", value: (p) => p.numThreads, num: true, hide: 1 },
  { id: "engine", label: "Engine", text: (p) => p.engine, value: (p) => p.engine, hide: 2 },
  { id: "age", label: "Age", text: (p, now) => seconds(p.age(now)), value: (p, now) => p.age(now), num: true, hide: 3 },
  { id: "service", label: "Service", title: "Attained service", text: (p) => seconds(p.service), value: (p) => p.service, num: true },
  { id: "waiting", label: "Waiting", text: (p, now) => seconds(p.waiting(now)), value: (p, now) => p.waiting(now), num: true },
  { id: "done", label: "Done", title: "Calls finished; aborted", text: done, value: (p) => p.done, num: true, hide: 1 },
  { id: "weight", label: "Weight", text: (p) => p.weight ?? "", value: (p) => p.weight ?? 1, num: true, hide: 1 },
  { id: "next", label: "Next in line, and why", text: nextInLine, value: (p) => p.next?.position ?? 1e9, hide: 2 },
];

function done(program) {
  return program.aborted ? `${count(program.done)} ✕${count(program.aborted)}` : count(program.done);
}

// Places further back are not told when they change: too many would, whenever one call goes.
function nextInLine(program) {
  return program.next?.position > NEAR ? `behind more than ${NEAR} others` : program.reason;
}

export class Table {
  constructor(root, { onOpen, onAct }) {
    this.root = root;
    this.head = root.querySelector(".head > [role=row]");
    this.body = root.querySelector(".body");
    this.shown = [];
    this.chosen = null; // the key of the row that keys act on
    this.sort = { id: "state", down: false };
    this._pool = [];
    this._onOpen = onOpen;
    this._onAct = onAct;
    this._columns = [];
    this.showColumns(new Set());
    root.addEventListener("scroll", () => requestAnimationFrame(() => this._paint()), { passive: true });
    root.addEventListener("keydown", (event) => this._press(event));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("[role=row]");
      if (row) this._choose(Number(row.dataset.index), true);
    });
    new ResizeObserver(() => this._paint()).observe(root);
  }

  /** Leave out the columns of these ids. */
  showColumns(without) {
    this._columns = COLUMNS.filter((column) => !without.has(column.id));
    this.head.replaceChildren(...this._columns.map((column) => this._header(column)));
    this.body.replaceChildren();
    this._pool = [];
    this.root.setAttribute("aria-colcount", this._columns.length);
  }

  /** Show these programs, in the order that the user has chosen. */
  update(programs, now) {
    const { value } = COLUMNS.find((column) => column.id === this.sort.id);
    const sign = this.sort.down ? -1 : 1;
    const keyed = programs.map((program) => [value(program, now), program]);
    keyed.sort(([a, p], [b, q]) => sign * (a < b ? -1 : a > b ? 1 : 0) || p.started - q.started || (p.key < q.key ? -1 : 1));
    this.shown = keyed.map(([, program]) => program);
    this.now = now;
    this.body.style.height = `${this.shown.length * ROW_PX}px`;
    this.root.setAttribute("aria-rowcount", this.shown.length + 1);
    this._paint();
  }

  chosenProgram() {
    return this.shown.find((program) => program.key === this.chosen) ?? null;
  }

  _header(column) {
    const button = el("button", { type: "button", title: column.title, onclick: () => this._sortBy(column) }, column.label);
    return el("div", { role: "columnheader", class: classes(column), "aria-sort": this._ariaSort(column) }, button);
  }

  _ariaSort(column) {
    return column.id !== this.sort.id ? "none" : this.sort.down ? "descending" : "ascending";
  }

  _sortBy(column) {
    const again = this.sort.id === column.id;
    this.sort = { id: column.id, down: again ? !this.sort.down : Boolean(column.num && column.id !== "level") };
    [...this.head.children].forEach((cell, i) => cell.setAttribute("aria-sort", this._ariaSort(this._columns[i])));
    this.update(this.shown, this.now);
  }

  _paint() {
    const height = this.root.clientHeight - this.head.offsetHeight;
    const first = Math.max(0, Math.floor(this.root.scrollTop / ROW_PX) - SPARE);
    const last = Math.min(this.shown.length, Math.ceil((this.root.scrollTop + height) / ROW_PX) + SPARE);
    while (this._pool.length < last - first) this._pool.push(this._row());
    let active = null;
    this._pool.forEach((row, i) => {
      const index = first + i;
      row.hidden = index >= last;
      if (row.hidden) return;
      if (this._fill(row, index)) active = row.id;
    });
    if (active) this.root.setAttribute("aria-activedescendant", active);
    else this.root.removeAttribute("aria-activedescendant");
  }

  _row() {
    const cells = this._columns.map((column) => el("div", { role: "gridcell", class: classes(column) }));
    const row = el("div", { role: "row", id: `row-${this._pool.length}` }, ...cells);
    this.body.append(row);
    return row;
  }

  _fill(row, index) {
    const program = this.shown[index];
    const chosen = program.key === this.chosen;
    row.style.transform = `translateY(${index * ROW_PX}px)`;
    row.dataset.index = index;
    row.dataset.state = program.state;
    row.classList.toggle("odd", index % 2 === 1);
    row.setAttribute("aria-rowindex", index + 2);
    row.setAttribute("aria-selected", chosen);
    this._columns.forEach((column, i) => {
      const text = String(column.text(program, this.now));
      const cell = row.children[i];
      if (cell.textContent !== text) {
        cell.textContent = text;
        if (!column.num) cell.title = text;
      }
    });
    return chosen;
  }

  _choose(index, open) {
    const program = this.shown[Math.max(0, Math.min(this.shown.length - 1, index))];
    if (!program) return;
    this.chosen = program.key;
    const top = this.shown.indexOf(program) * ROW_PX;
    const height = this.root.clientHeight - this.head.offsetHeight;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (top + ROW_PX > this.root.scrollTop + height) this.root.scrollTop = top + ROW_PX - height;
    this._paint();
    if (open) this._onOpen(program);
  }

  _press(event) {
    if (event.target !== this.root || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.shown.findIndex((program) => program.key === this.chosen);
    const page = Math.max(1, Math.floor(this.root.clientHeight / ROW_PX) - 2);
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.shown.length - 1 };
    const act = { p: "pause", r: "resume", c: "cancel", w: "weight" }[event.key];
    if (event.key in to) this._choose(to[event.key], false);
    else if (event.key === "Enter" && at >= 0) this._choose(at, true);
    else if (act && at >= 0) this._onAct(act, this.shown[at]);
    else return;
    event.preventDefault();
  }
}

function classes(column) {
  return `c-${column.id}${column.num ? " num" : ""}${column.hide ? ` hide-${column.hide}` : ""}`;
}
