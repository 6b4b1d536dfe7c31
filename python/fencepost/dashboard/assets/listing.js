// Messages in a state: filters, pages by cursor, and what may be done to those that are chosen.

import { h, moment, none, number, table } from "./dom.js";
import { get, post } from "./net.js";
import { isOpen, one, question, toast } from "./dialogs.js";

const PAGE = 50;
const STATES = ["pending", "leased", "done", "dead", "unknown", "cancelled"];
const IN_LINE = ["pending", "leased"];

const say = (counts) => Object.entries(counts).map(([word, count]) => `${number(count)} ${word}`).join(", ") || "none";
const named = (messages) => messages.map(({ id, generation }) => ({ id, generation }));

/** What may be done in each state: [name, label, ask(messages) -> body or null, style]. */
const ACTIONS = {
  dead: [["replay", "Replay", () => ({}), "primary"]],
  unknown: [
    ["confirm", "It arrived", (messages) => question({
      title: `${messages.length === 1 ? "This has" : `These ${messages.length} have`} arrived?`,
      text: "What is confirmed is done, and is not sent again.", action: "Confirm",
      fields: [{ name: "note", label: "How you know (kept with the message)", maxlength: 250 }],
    })],
    ["retry", "Send again", (messages) => question({
      title: `Send ${messages.length === 1 ? "it" : `these ${messages.length}`} again?`,
      text: "Only you can know that it did not arrive. If it did, the receiver gets it twice, with the same event id.", action: "Send again",
      fields: [{ name: "note", label: "How you know (shown until it has arrived)", maxlength: 250 }],
    }), "danger"],
  ],
  pending: [["cancel", "Cancel", sure, "danger"]],
  leased: [["cancel", "Cancel", sure, "danger"]],
};

function sure(messages) {
  return question({
    title: `Cancel ${messages.length === 1 ? `message ${messages[0].id}` : `${messages.length} messages`}?`,
    text: "What is cancelled does not run. A worker that holds one finds its lease lost.", action: "Cancel it", danger: true,
  });
}

export function listing(app, params, { state: fixed = null, title, about, queues = () => true, extra = null, needsQueue = false }) {
  const state = fixed ?? (STATES.includes(params.get("state")) ? params.get("state") : "pending");
  const filters = Object.fromEntries(["queue", "kind", "failure", "lane", "since", "before"].map((name) => [name, params.get(name) ?? ""]));
  let rows = [], next = null, error = null, loaded = false, controller = null, seen = null;
  const trail = []; // cursors of the pages before this one
  let after = null;
  const chosen = new Set();

  const list = h("div", { class: "list" });
  const bulk = h("div", { class: "row bulk" });
  const pager = h("div", { class: "row pager" });
  const queueSelect = h("select", { id: "f-queue", onchange: () => go() });
  const field = (id, label, input) => h("label", { for: id }, label, input);
  const text = (name, label, hint) => field(`f-${name}`, label, h("input", {
    id: `f-${name}`, value: filters[name], placeholder: hint, autocomplete: "off", spellcheck: "false", onchange: () => go(),
  }));
  const stateSelect = fixed === null ? h("select", { id: "f-state", onchange: () => go() },
    STATES.map((word) => h("option", { value: word, selected: word === state }, word))) : null;
  const failed = ["dead", "unknown"].includes(state);
  const failureSelect = h("select", { id: "f-failure", onchange: () => go() }, h("option", { value: "" }, "any"));
  const form = h("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); go(); } },
    stateSelect ? field("f-state", "State", stateSelect) : null,
    field("f-queue", needsQueue ? "Address" : "Queue", queueSelect),
    needsQueue || state === "unknown" ? null : text("kind", "Job", "any"), text("lane", "Lane", "any"),
    failed ? field("f-failure", "Failure", failureSelect) : null,
    IN_LINE.includes(state) ? null : [
      field("f-since", "Ended since", h("input", { id: "f-since", type: "datetime-local", value: local(filters.since), onchange: () => go() })),
      field("f-before", "and before", h("input", { id: "f-before", type: "datetime-local", value: local(filters.before), onchange: () => go() }))],
    h("button", { type: "submit", class: "hidden" }, "Find"));
  // On a phone the filters are folded, unless some are set.
  const filtering = h("details", { class: "filtering", open: innerWidth > 720 || Object.values(filters).some(Boolean) },
    h("summary", null, "Filters"), form);
  const element = h("div", { class: "view" },
    h("section", { class: "card" },
      h("div", { class: "row head" }, h("h2", null, title), h("span", { class: "dim about" }, about), h("span", { class: "space" }),
        extra ? extra(() => load()) : null),
      filtering, bulk, list, pager));

  function local(iso) {
    if (!iso) return "";
    const at = new Date(iso);
    return Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
  }

  function go() {
    const wanted = new URLSearchParams();
    if (stateSelect) wanted.set("state", stateSelect.value);
    for (const name of Object.keys(filters)) {
      const input = form.querySelector(`#f-${name}`);
      if (!input?.value) continue;
      wanted.set(name, input.type === "datetime-local" ? new Date(input.value).toISOString() : input.value);
    }
    location.hash = `#${app.view}${wanted.size ? `?${wanted}` : ""}`;
  }

  function fillQueues() {
    const names = (app.status?.queues ?? []).filter((q) => !q.rest && queues(q)).map((q) => q.name);
    if (filters.queue && !names.includes(filters.queue)) names.push(filters.queue);
    const wanted = JSON.stringify(names);
    if (queueSelect.dataset.names === wanted || document.activeElement === queueSelect) return;
    queueSelect.dataset.names = wanted;
    queueSelect.replaceChildren(
      ...(needsQueue ? [] : [h("option", { value: "" }, "all")]),
      ...names.map((name) => h("option", { value: name }, name)));
    queueSelect.value = filters.queue || (needsQueue ? names[0] ?? "" : "");
    if (needsQueue && !filters.queue && names.length) {
      filters.queue = names[0];
      load();
    }
  }

  function fillFailures() {
    if (!app.about || failureSelect.length > 1) return;
    failureSelect.append(...app.about.failures.map((word) => h("option", { value: word }, word.replaceAll("_", " "))));
    failureSelect.value = filters.failure;
  }

  async function load() {
    if (needsQueue && !filters.queue) {
      loaded = true;
      return draw();
    }
    controller?.abort();
    controller = new AbortController();
    try {
      const told = await get("messages", { state, ...filters, after, limit: PAGE }, controller.signal);
      [rows, next, error, loaded] = [told.messages, told.next, null, true];
    } catch (problem) {
      if (problem.name === "AbortError") return;
      error = problem;
    }
    for (const id of [...chosen]) if (!rows.some((row) => row.id === id)) chosen.delete(id);
    draw();
  }

  const actions = () => (ACTIONS[state] ?? []).filter(([name]) => app.may(name));

  async function act([name, , ask], messages) {
    const given = await ask(messages);
    if (given === null) return;
    const done = await app.act(name, { messages: named(messages), ...given }, (told) => say(told.counts));
    if (done) chosen.clear();
    load();
  }

  async function replayAll() {
    const some = Object.values(filters).some(Boolean);
    const sum = {};
    const found = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
    if (!await question({
      title: some ? "Replay all that the filters find?" : "Replay all dead letters?",
      text: "Each goes back in line under its own id, with its attempts counted anew.", action: "Replay all",
    })) return;
    if (!await app.ready("replay")) return;
    let from = null;
    try {
      do {
        const told = await post("replay", { found: { ...found, after: from } });
        for (const [word, count] of Object.entries(told.counts)) sum[word] = (sum[word] ?? 0) + count;
        from = told.next;
      } while (from !== null);
      toast(say(sum));
    } catch (problem) {
      app.failed(problem);
    }
    load();
    app.poll();
  }

  async function discard() {
    const week = new Date(Date.now() - 7 * 86400e3);
    const given = await question({
      title: "Discard dead letters", action: "Count them",
      text: `Those${filters.queue ? ` of ${filters.queue}` : ""} that died before this moment, for good, with their payloads and keys.`,
      fields: [{ name: "before", label: "Died before", type: "datetime-local", value: local(week.toISOString()) }],
    });
    if (!given?.before || !await app.ready("discard")) return;
    const wanted = { before: new Date(given.before).toISOString(), queue: filters.queue || null };
    try {
      const counted = await post("discard", wanted);
      if (!counted.count) return void toast("There are none that old.");
      const many = `${counted.more ? "more than " : ""}${number(counted.count)}`;
      if (!await question({ title: `Discard ${many} dead letters?`, text: "They cannot be brought back.", action: "Discard", danger: true })) return;
      let gone = 0, told;
      do {
        told = await post("discard", { ...wanted, apply: true });
        gone += told.count;
      } while (told.more);
      toast(`${number(gone)} discarded.`);
    } catch (problem) {
      app.failed(problem);
    }
    load();
    app.poll();
  }

  function open(message) {
    one(app, message, actions().map((action) => [action[1], () => act(action, [message]), action[3]]));
  }

  function drawBulk() {
    const messages = rows.filter((row) => chosen.has(row.id));
    const able = actions();
    if (!able.length) return void bulk.replaceChildren();
    const all = h("input", { type: "checkbox", id: "all", checked: messages.length > 0 && messages.length === rows.length,
      onchange: (event) => { rows.forEach((row) => event.target.checked ? chosen.add(row.id) : chosen.delete(row.id)); draw(); } });
    bulk.replaceChildren(
      h("label", { class: "check" }, all, messages.length ? `${messages.length} chosen` : "All on this page"),
      ...able.map((action) => h("button", { class: action[3], disabled: !messages.length, onclick: () => act(action, messages) }, action[1])),
      h("span", { class: "space" }),
      ...(state === "dead" && app.may("replay") ? [h("button", { onclick: replayAll, disabled: !rows.length }, "Replay all…")] : []),
      ...(state === "dead" && app.may("discard") ? [h("button", { onclick: discard, class: "quiet" }, "Discard…")] : []));
  }

  const choose = (message, on) => {
    if (on) chosen.add(message.id);
    else chosen.delete(message.id);
    drawBulk();
  };
  const fails = () => rows.some((m) => m.failure);
  const columns = () => [
    ...(actions().length ? [{ name: "", class: "pick", cell: (m) => h("input", { type: "checkbox", "aria-label": `Choose ${m.id}`,
      checked: chosen.has(m.id), onchange: (event) => choose(m, event.target.checked) }) }] : []),
    { name: "id", right: true, cell: (m) => h("button", { class: "link", "data-open": m.id, onclick: () => open(m) }, m.id) },
    ...(filters.queue ? [] : [{ name: "queue", cell: (m) => m.queue }]),
    { name: needsQueue ? "message id" : "key", class: "break", grow: !fails(), cell: (m) => m.key ?? none() },
    ...(rows.some((m) => m.lane !== null) ? [{ name: "lane", class: "break", cell: (m) => m.lane ?? none() }] : []),
    { name: "attempt", right: true, cell: (m) => number(m.attempt) },
    { name: { pending: "due", leased: "lease ends" }[state] ?? "ended", cell: (m) => moment(m.due ?? m.settled_at, app.now()) },
    ...(fails() ? [{ name: "failure", grow: true, class: "failure", cell: (m) => m.failure
      ? [h("span", { class: `chip ${m.state === "dead" ? "bad" : "warn"}` }, m.failure.kind), " ", m.failure.text]
      : none() }] : []),
  ];

  function draw() {
    drawBulk();
    if (error) {
      list.replaceChildren(h("p", { class: "empty bad" }, error.message));
    } else if (!loaded) {
      list.replaceChildren(h("p", { class: "empty loading" }, "…"));
    } else {
      app.redraw(list, table(columns(), rows, { label: title, empty: nothing() }));
    }
    pager.replaceChildren(...(trail.length || next ? [
      h("button", { disabled: !trail.length, onclick: () => turn(trail.pop()) }, "‹ Back"),
      h("span", { class: "dim" }, `page ${trail.length + 1}`),
      h("button", { disabled: !next, onclick: () => { trail.push(after); turn(next); } }, "Further ›")] : []));
  }

  function nothing() {
    if (trail.length || next) return "Nothing on this page; there is more behind it.";
    if (needsQueue && !filters.queue) return "This file has no inbox.";
    if (Object.values(filters).some((value) => value && value !== filters.queue)) return "Nothing that these filters find.";
    return { dead: "No dead letters.", unknown: "No delivery is in doubt." }[state] ?? `Nothing is ${state}.`;
  }

  function turn(cursor) {
    after = cursor;
    chosen.clear();
    load();
  }

  draw();
  load();
  return {
    element,
    refresh: load,
    /** Reads again when a count has moved, unless somebody is in the middle of something. */
    update() {
      fillQueues();
      fillFailures();
      const of = filters.queue ? app.status?.queues.find((q) => q.name === filters.queue) : app.status?.totals;
      const counts = of && JSON.stringify([of.pending, of.leased, of[state]]);
      const idle = !chosen.size && !isOpen() && !trail.length;
      if (counts !== seen && idle) {
        if (seen !== null) load();
        seen = counts;
      } else if (idle && !IN_LINE.includes(state)) {
        draw();
      }
    },
  };
}
