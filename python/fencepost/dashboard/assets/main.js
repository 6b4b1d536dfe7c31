// The frame: which view is shown, the look every two seconds, keys, light and dark.

import { h, number } from "./dom.js";
import { get, post, setToken, takeToken, token } from "./net.js";
import { isOpen, keys, toast, unlocked } from "./dialogs.js";
import { Samples } from "./plot.js";
import { overview } from "./overview.js";
import { listing } from "./listing.js";
import { runs } from "./runs.js";
import { inbox, lanes, schedules, workers } from "./places.js";

const EVERY = 2000; // milliseconds between two looks; longer while nobody answers
const AT_MOST = 15000;
const THEMES = ["auto", "light", "dark"];

const has = (profile) => (status) => status.queues.some((q) => q.profile === profile);
const VIEWS = {
  overview: { title: "Overview", make: overview },
  dead: {
    title: "Dead letters", count: (status) => status.totals.dead, kind: "bad",
    make: (app, params) => listing(app, params, { state: "dead", title: "Dead letters", about: "The newest first." }),
  },
  unknown: {
    title: "In doubt", count: (status) => status.totals.unknown, kind: "warn",
    make: (app, params) => listing(app, params, {
      state: "unknown", title: "Deliveries in doubt", about: "Begun, and not answered for. None is sent again unless you say so.",
    }),
  },
  inbox: { title: "Inbox", make: inbox, when: has("inbox") },
  runs: { title: "Workflows", make: runs, when: has("wake-up") },
  messages: { title: "Messages", make: (app, params) => listing(app, params, { title: "Messages", about: "" }) },
  lanes: { title: "Lanes", make: lanes, when: (status) => status.totals.waiting > 0 },
  schedules: { title: "Schedules", make: schedules },
  workers: { title: "Workers", make: workers },
};

const $ = (id) => document.getElementById(id);

const app = {
  status: null, about: null, samples: null, view: "overview", skew: 0, paused: false,
  /** The moment on the file's clock, in milliseconds. */
  now: () => Date.now() + app.skew,
  may: (name) => app.about?.allowed.includes(name) ?? false,
  poll: () => look(),

  /** Asks for the token where it is needed. */
  ready: () => unlocked("What changes something needs the token."),

  /** Does something by its name, and says what became of it; whether it was done. */
  async act(name, body, words) {
    if (!await app.ready()) return false;
    try {
      toast(words(await post(name, body)));
      look();
      return true;
    } catch (error) {
      app.failed(error);
      return false;
    }
  },

  failed(error) {
    if (error.type === "token") {
      setToken(null);
      drawLock();
    }
    toast(error.message, "bad");
  },

  /** New content, with the focus and what was scrolled where it was. */
  redraw(element, ...children) {
    const chosen = getSelection();
    if (!chosen.isCollapsed && element.contains(chosen.anchorNode)) return; // somebody is about to copy it
    const active = element.contains(document.activeElement) ? place(element, document.activeElement) : null;
    const scrolled = element.querySelector(".scroll")?.scrollLeft ?? 0;
    if (element.matches(":has(.plot:hover, .plot:focus)") && element.childElementCount) return;
    element.replaceChildren(...children);
    if (scrolled) element.querySelector(".scroll")?.scrollTo({ left: scrolled });
    if (active) element.querySelectorAll("a, button, input, select, [tabindex]")[active]?.focus({ preventScroll: true });
  },
};

const place = (element, active) => [...element.querySelectorAll("a, button, input, select, [tabindex]")].indexOf(active);

// ---- which view ----

let current = null;

function route() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close(""); // of the view before
  const [name, query] = location.hash.replace(/^#/, "").split("?");
  app.view = Object.hasOwn(VIEWS, name) ? name : "overview";
  current = VIEWS[app.view].make(app, new URLSearchParams(query ?? ""));
  $("main").replaceChildren(current.element);
  document.title = `${VIEWS[app.view].title} · Fencepost`;
  drawNav();
  current.update();
}

function drawNav() {
  const links = Object.entries(VIEWS).filter(([name, view]) => !view.when || name === app.view || (app.status && view.when(app.status))).map(([name, view]) => {
    const count = app.status && view.count ? view.count(app.status) : 0;
    return h("a", { href: `#${name}`, "aria-current": name === app.view ? "page" : null },
      view.title, count ? h("span", { class: `badge ${view.kind}` }, number(count)) : null);
  });
  app.redraw($("nav"), ...links);
}

// ---- the look ----

let asked = false;

/** By itself the page asks for the token once; then it waits until somebody unlocks it. */
async function askedOnce() {
  if (asked) return false;
  asked = true;
  return unlocked("Reading this dashboard needs the token.");
}

let timer = null, pause = EVERY, looking = false, again = false, troubleSince = null;

async function look() {
  clearTimeout(timer);
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  try {
    app.about ??= await get("about");
    if (app.about.private && !token() && !await askedOnce()) {
      throw Object.assign(new Error("Reading needs the token: unlock it, above."), { type: "token" });
    }
    app.status = await get("status");
    app.skew = Date.parse(app.status.time) - Date.now();
    if (app.samples?.path !== app.status.path) app.samples = new Samples(app.status.path);
    app.samples.add(app.status);
    pause = EVERY;
    say(null);
    drawNav();
    current.update();
  } catch (error) {
    if (error.type === "token") setToken(null);
    pause = Math.min(AT_MOST, pause * 1.6);
    say(error);
  }
  looking = false;
  drawFrame();
  if (again) {
    again = false;
    look();
  } else if (!app.paused && !document.hidden) {
    timer = setTimeout(look, pause);
  }
}

const TITLES = {
  busy: "The file is busy", missing: "The file is not there", newer_schema: "The file is of a newer Fencepost",
  damaged: "The file is damaged", not_a_store: "This is no store", unreachable: "No answer", storage: "The file cannot be read",
  token: "Locked", host: "Not this name",
};

function say(error) {
  const box = $("trouble");
  document.body.classList.toggle("stale", error !== null && app.status !== null);
  if (error === null) {
    troubleSince = null;
    box.hidden = true;
    return;
  }
  troubleSince ??= Date.now();
  box.hidden = false;
  const old = app.status ? ` What stands below is as of ${new Date(app.status.time).toLocaleTimeString()}.` : "";
  box.replaceChildren(h("strong", null, `${TITLES[error.type] ?? "That went wrong"}. `), `${error.message}${/[.!?]$/.test(error.message) ? "" : "."}${old}`);
}

function drawFrame() {
  const path = app.status?.path ?? "";
  $("file").replaceChildren(h("span", { title: path }, path.split("/").at(-1)));
  const [words, kind] = app.paused ? ["paused", "warn"] : troubleSince ? ["no news", "bad"] : app.status ? ["live", "good"] : ["…", ""];
  $("live").className = `pill ${kind}`;
  $("live").textContent = words;
  drawLock();
}

function drawLock() {
  const locks = app.about && (app.about.allowed.length > 0 || app.about.private);
  $("unlock").hidden = !locks;
  $("unlock").textContent = token() ? "Lock" : "Unlock";
  $("unlock").title = token() ? "Forget the token" : "Give the token that actions need";
}

// ---- hands ----

function theme(next) {
  const root = document.documentElement;
  let wanted = localStorage.getItem("fencepost theme") ?? "auto";
  if (next) wanted = THEMES[(THEMES.indexOf(wanted) + 1) % THEMES.length];
  if (wanted === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", wanted);
  localStorage.setItem("fencepost theme", wanted);
  $("theme").textContent = { auto: "◐", light: "☀", dark: "☾" }[wanted];
}

function togglePause() {
  app.paused = !app.paused;
  drawFrame();
  if (app.paused) clearTimeout(timer);
  else look();
}

async function toggleLock() {
  if (token()) {
    setToken(null);
    if (app.about?.private) location.reload(); // what only the token may see is not left standing
  } else await unlocked("What changes something needs the token.");
  drawLock();
  look();
}

function walk(step) {
  const rows = [...$("main").querySelectorAll("[data-open]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))].focus();
}

const KEYS = [
  ["1 … 9", "A view, by its place above"], ["j k", "Down and up a list"], ["Enter", "Open the message"], ["x", "Choose it"],
  ["/", "To the filters"], ["r", "Look now"], ["p", "Pause, or go on"], ["t", "Light, dark, or as the system"], ["Esc", "Close what stands over the page"], ["?", "These keys"],
];

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isOpen()) return;
  if (event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  const links = [...$("nav").querySelectorAll("a")];
  if (/^[1-9]$/.test(event.key) && links[event.key - 1]) location.hash = links[event.key - 1].getAttribute("href");
  else if (event.key === "j") walk(1);
  else if (event.key === "k") walk(-1);
  else if (event.key === "x") document.activeElement.closest("tr")?.querySelector("input[type=checkbox]")?.click();
  else if (event.key === "/") $("main").querySelector("form select, form input")?.focus();
  else if (event.key === "r") { look(); current.refresh?.(); }
  else if (event.key === "p") togglePause();
  else if (event.key === "t") theme(true);
  else if (event.key === "?") keys(KEYS);
  else return;
  event.preventDefault();
}

takeToken();
theme(false);
$("theme").addEventListener("click", () => theme(true));
$("live").addEventListener("click", togglePause);
$("unlock").addEventListener("click", toggleLock);
$("help").addEventListener("click", () => keys(KEYS));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is the view's
  $("main").focus();
});
addEventListener("hashchange", route);
addEventListener("keydown", pressed);
addEventListener("pagehide", () => {
  if (!app.about?.private || token()) app.samples?.keep();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && !app.paused) look(); });
route();
look();
