// The smaller views: inboxes, schedules, workers.

import { h, moment, none, number, span, table } from "./dom.js";
import { get } from "./net.js";
import { listing } from "./listing.js";
import { one } from "./dialogs.js";

const LANED = 20; // queues whose lanes are asked for

/** Lanes that stand still behind a dead or unknown message, until an operator lets them go on. */
export function lanes(app) {
  const read = async () => {
    const laned = (app.status?.queues ?? []).filter((q) => q.waiting && !q.rest).slice(0, LANED);
    const told = await Promise.all(laned.map((q) => get("lanes", { queue: q.name })));
    return told.flatMap(({ lanes: found }, i) => found.map((one) => ({ queue: laned[i].name, ...one })));
  };
  const view = reread(app, {
    read, title: "Lanes that stand still",
    about: "Behind a message that died, or that is in doubt. What waits in other lanes goes its way.",
    empty: "None stands still: whatever waits in a lane has its turn when those before it have ended.",
    columns: [
      { name: "queue", cell: (l) => l.queue },
      { name: "lane", grow: true, class: "break", cell: (l) => h("span", { class: "strong" }, l.lane) },
      { name: "stands still for", right: true, cell: (l) => h("button", { class: "link", onclick: () => find(app, `messages/${l.message}`) }, l.message) },
      { name: "", class: "act", cell: (l) => app.may("release")
        ? h("button", { class: "small", onclick: () => release(l) }, "Let it go on") : null },
    ],
  });
  async function release({ queue, lane }) {
    await app.act("release", { queue, lane }, (told) => told.released ? `${lane} goes on.` : `${lane} did not stand still.`);
    view.refresh();
  }
  return view;
}

/** A table that is read anew with every few looks at the status. */
function reread(app, { read, title, about, columns, empty, every = 3 }) {
  const list = h("div", null, h("p", { class: "empty loading" }, "…"));
  const element = h("div", { class: "view" }, h("section", { class: "card" },
    h("div", { class: "row head" }, h("h2", null, title), h("span", { class: "dim about" }, about)), list));
  let looks = 0, told = null;
  const draw = () => told && app.redraw(list, table(columns, told, { label: title, empty }));
  async function load() {
    try {
      told = await read();
      draw();
    } catch (error) {
      list.replaceChildren(h("p", { class: "empty bad" }, error.message));
    }
  }
  load();
  return { element, refresh: load, update: () => (++looks % every ? draw() : load()) };
}

const MISSED = { latest: "the latest one is made up for", all: "all are made up for", skip: "they are skipped" };

export function schedules(app) {
  return reread(app, {
    read: async () => (await get("schedules")).schedules, title: "Schedules",
    about: "Fired by whichever worker is there, in one transaction with the job that follows.",
    empty: "No schedule yet. A worker puts down those of its App when it starts.",
    columns: [
      { name: "job", class: "break", grow: true, cell: (s) => h("span", { class: "strong" }, s.job) },
      { name: "rule", cell: (s) => h("code", null, s.rule) },
      { name: "zone", cell: (s) => s.zone },
      { name: "fired up to", cell: (s) => moment(s.fired_up_to, app.now()) },
      { name: "next", cell: (s) => moment(s.next, app.now()) },
      { name: "when missed", cell: (s) => h("span", { class: "dim" }, MISSED[s.missed] ?? s.missed) },
      { name: "last message", right: true, cell: (s) => s.last_message === null ? none()
        : h("button", { class: "link", onclick: () => find(app, `messages/${s.last_message}`) }, s.last_message) },
    ],
  });
}

const ALIVE = new Map([[true, ["good", "alive"]], [false, ["bad", "dead"]], [null, ["", "cannot be told"]]]);

export function workers(app) {
  return reread(app, {
    read: async () => (await get("workers")).workers, title: "Workers",
    about: "Handles that have claimed something. That one lives is what the kernel says, not a heartbeat.",
    empty: "Nobody has claimed anything from this file, or all have closed it.",
    columns: [
      { name: "worker", right: true, cell: (w) => h("span", { class: "strong" }, w.id) },
      { name: "process", right: true, cell: (w) => w.pid },
      { name: "machine", grow: true, class: "break", cell: (w) => w.machine },
      { name: "since", cell: (w) => moment(w.started, app.now()) },
      { name: "", cell: (w) => h("span", { class: `chip ${ALIVE.get(w.alive)[0]}` }, ALIVE.get(w.alive)[1]) },
    ],
  });
}

async function find(app, path, params) {
  try {
    await one(app, await get(path, params), []);
  } catch (error) {
    app.failed(error);
  }
}

export function inbox(app, params) {
  const window = h("span", { class: "dim" });
  const search = () => {
    const input = h("input", { id: "f-find", placeholder: "message id", autocomplete: "off", spellcheck: "false", "aria-label": "Find a message by its own id" });
    return h("form", { class: "row", onsubmit: (event) => {
      event.preventDefault();
      const address = view.element.querySelector("#f-queue").value;
      if (input.value && address) find(app, "inbox", { address, message_id: input.value });
    } }, window, input, h("button", { type: "submit" }, "Find"));
  };
  const view = listing(app, params, {
    title: "Inbox", about: "What came in, by the ids its senders gave it.", needsQueue: true,
    queues: (queue) => queue.profile === "inbox", extra: search,
  });
  const update = view.update;
  view.update = () => {
    update();
    const address = view.element.querySelector("#f-queue").value;
    const queue = app.status?.queues.find((q) => q.name === address);
    window.textContent = queue?.dedupe_window ? `an id answers for ${span(queue.dedupe_window)} after its end; ${number(queue.done)} done` : "";
  };
  return view;
}
