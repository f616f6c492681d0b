// Numbers and durations as people read them, and elements without markup: what a program calls itself is always text.

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0005) return "0";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 60) return `${Math.round(value)} s`;
  const total = Math.round(value);
  const h = Math.floor(total / 3600);
  const m = Math.floor((total % 3600) / 60);
  const s = total % 60;
  if (h >= 48) return `${Math.floor(h / 24)} d ${h % 24} h`;
  if (h) return `${h} h ${String(m).padStart(2, "0")} m`;
  return `${m} m ${String(s).padStart(2, "0")} s`;
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** An element: its attributes, then children (text or elements). */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** The value below which a share `q` of sorted numbers lies (nearest rank). */
export function quantile(sorted, q) {
  return sorted.length ? sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] : null;
}

/** Each state has a sign of its own, so that colour is never the only thing that tells. */
export const SIGNS = { answering: "▶", sent: "▷", held: "◷", paused: "‖", idle: "·", ended: "✓" };
