// Asking the server. Addresses are relative, so the page works wherever it is mounted. The token is
// kept in this tab, and goes out in a header; no cookie, nothing in an address.

const KEPT = "fencepost token";
const HEADER = "X-Fencepost-Token";

export class Refused extends Error {
  constructor(type, message, status) {
    super(message);
    this.type = type;
    this.status = status;
  }
}

/** A token that came in the fragment (which no server sees) is taken out of the address. */
export function takeToken() {
  const found = /^#token=([\x21-\x7e]{16,})$/.exec(location.hash);
  if (!found) return;
  setToken(found[1]);
  history.replaceState(null, "", location.pathname + "#overview");
}

export const token = () => sessionStorage.getItem(KEPT);
export function setToken(value) {
  if (value) sessionStorage.setItem(KEPT, value);
  else sessionStorage.removeItem(KEPT);
}

async function ask(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token()) headers[HEADER] = token();
  let response;
  try {
    response = await fetch(`api/${path}`, {
      cache: "no-store", credentials: "same-origin", redirect: "error", ...options, headers,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("unreachable", "The dashboard's server does not answer.", 0);
  }
  let told = null;
  try {
    told = await response.json();
  } catch {
    // What is no JSON is told by its status alone.
  }
  if (response.ok && told !== null) return told;
  const said = told?.error ?? {};
  throw new Refused(said.type ?? "error", said.message ?? `The server answered ${response.status}.`,
    response.status);
}

export function get(path, params = {}, signal = undefined) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return ask(query ? `${path}?${query}` : path, { signal });
}

export const post = (path, body) => ask(path, {
  method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
});
