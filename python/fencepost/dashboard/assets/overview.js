// How it goes: what waits, what is late, what ends in a second, queue by queue.

import { h, none, number, rate, span, table } from "./dom.js";
import { plot, spark } from "./plot.js";

const PROFILES = { job: "jobs", queue: "queue", outbox: "outbox", inbox: "inbox", "wake-up": "workflows" };

const LATE = 60; // seconds
const VERY_LATE = 600;

const lateness = (queue) => {
  const age = queue.oldest_age;
  if (age === null || queue.paused || age < LATE) return "";
  return age < VERY_LATE ? "warn" : "bad";
};

/** A count that leads to what it counts. */
function counted(count, view, params, kind = "") {
  if (!count) return none("0");
  return h("a", { href: `#${view}?${new URLSearchParams(params)}`, class: kind }, number(count));
}

const RATELESS = "This queue keeps nothing of what is done, so there is no rate.";
const rateless = (queue) => queue.profile === "queue" && queue.done === 0;

export function overview(app) {
  const element = h("div", { class: "view" });

  const tile = (label, value, kind, href) =>
    h(href ? "a" : "div", { class: `tile ${kind ?? ""}`, href }, h("span", { class: "label" }, label), h("span", { class: "figure" }, value));

  const tiles = ({ totals, queues }) => {
    const late = queues.filter((q) => !q.paused && q.oldest_age !== null).sort((a, b) => b.oldest_age - a.oldest_age)[0];
    const kind = late ? lateness(late) : "";
    return h("div", { class: "tiles" },
      tile("Pending", number(totals.pending), "", "#messages?state=pending"),
      totals.waiting ? tile("In lanes", number(totals.waiting), "", "#lanes") : null,
      tile("Running", number(totals.leased), "", "#messages?state=leased"),
      tile("Late", late ? span(late.oldest_age) : "–", kind),
      tile("Ended / s", rate(app.samples.lately())),
      tile("Dead", number(totals.dead), totals.dead ? "bad" : "", "#dead"),
      tile("In doubt", number(totals.unknown), totals.unknown ? "warn" : "", "#unknown"));
  };

  const columns = [
    { name: "queue", grow: true, class: "name", cell: (q) => [h("span", { class: "strong" }, q.name), " ",
      h("span", { class: "dim" }, q.rest ? "those with least in line" : PROFILES[q.profile] ?? q.profile), " ",
      q.paused ? h("span", { class: "chip warn" }, "paused") : null,
      q.lapsed ? h("span", { class: "chip warn", title: "Leases that ran out and were not taken over yet" }, `${number(q.lapsed)} lapsed`) : null] },
    { name: "pending", right: true, cell: (q) => counted(q.pending, "messages", { state: "pending", queue: q.name }) },
    { name: "waiting", right: true, cell: (q) => q.waiting ? h("a", { href: "#lanes", title: "Behind another one of their lane" }, number(q.waiting)) : none("0") },
    { name: "running", right: true, cell: (q) => counted(q.leased, "messages", { state: "leased", queue: q.name }) },
    { name: "done", right: true, cell: (q) => counted(q.done, "messages", { state: "done", queue: q.name }, "quiet") },
    { name: "dead", right: true, cell: (q) => counted(q.dead, "dead", { queue: q.name }, "bad") },
    { name: "in doubt", right: true, cell: (q) => counted(q.unknown, "unknown", { queue: q.name }, "warn") },
    { name: "late", right: true, cell: (q) => q.oldest_age === null ? none() : h("span", { class: lateness(q), title: "For how long the first one in line has been due" }, span(q.oldest_age)) },
    { name: "next in", right: true, cell: (q) => q.next_due_in === null ? none() : span(q.next_due_in) },
    { name: "ended/s", right: true, cell: (q) => rateless(q) ? h("span", { class: "dim none", title: RATELESS }, "–") : app.samples.lately(q.name) ? rate(app.samples.lately(q.name)) : none("0") },
    { name: "in line", right: true, class: "sparkcell", cell: (q) => spark(app.samples.line(q.name), app.samples.now, app.samples.span) },
    { name: "", class: "act", cell: (q) => app.may("pause") && !q.rest
      ? h("button", { class: "small", onclick: () => pause(q) }, q.paused ? "Resume" : "Pause") : null },
  ];

  async function pause(queue) {
    await app.act(queue.paused ? "resume" : "pause", { queue: queue.name },
      () => `${queue.name} ${queue.paused ? "goes on" : "is paused"}.`);
  }

  const [top, plots, queuesCard] = [h("div"), h("div", { class: "plots" }), h("section", { class: "card" })];
  element.append(top, plots, queuesCard);

  return {
    element,
    update() {
      if (!app.status) return;
      const { queues } = app.status;
      const { now, span: seconds } = app.samples;
      const byName = [...queues].sort((a, b) => a.rest - b.rest || a.name.localeCompare(b.name));
      const needed = columns.filter((c) =>
        (c.name !== "waiting" || queues.some((q) => q.waiting)) && (c.name !== "in doubt" || queues.some((q) => q.unknown)) && (c.name !== "" || app.may("pause")));
      app.redraw(top, tiles(app.status));
      app.redraw(plots,
        plot({ title: "Ended per second", points: app.samples.ended(), now, span: seconds, words: (v) => `${rate(v)} a second`, kind: "ended" }),
        plot({ title: "In line", points: app.samples.line(), now, span: seconds, words: (v) => number(v), kind: "inline" }));
      app.redraw(queuesCard, h("h2", null, "Queues"),
        table(needed, byName, { label: "Queues", empty: "No queue yet. One is made when a message is first enqueued, or a worker starts." }));
    },
  };
}
