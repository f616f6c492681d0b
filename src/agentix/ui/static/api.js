// The gateway over HTTP. Requests go to where this page came from, also behind a path prefix; a key travels in a header, so
// that no other site can use it.

const ROOT = new URL("../", import.meta.url);
const KEY = "agentix-key";

export class NeedsKey extends Error {}

/** A refusal in the gateway's words. */
export class Refused extends Error {}

export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

export async function call(method, path, body) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.authorization = `Bearer ${key}`;
  if (method !== "GET") headers["content-type"] = "application/json";
  const response = await fetch(new URL(path, ROOT), {
    method,
    headers,
    body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
    cache: "no-store",
    credentials: "omit",
    signal: AbortSignal.timeout(10_000),
  });
  const text = await response.text();
  let answer = null;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Refused(`${response.status} ${response.statusText}: not an answer of a gateway`);
  }
  if (response.status === 401) throw new NeedsKey(answer.error?.message ?? "a key is needed");
  // /health says 503 when no engine is left, and still tells of each.
  if (!response.ok && answer.error) throw new Refused(answer.error.message ?? `the gateway answered ${response.status}`);
  return answer;
}

export const get = (path) => call("GET", path);

/** The path of one program, whose id may hold anything. */
export function programPath(program, rest = "") {
  const query = program.tenant ? `?tenant=${encodeURIComponent(program.tenant)}` : "";
  return `v1/programs/${encodeURIComponent(program.id)}${rest}${query}`;
}
