// Runs of workflows, and the line of time of one of them.

import { h, svg, block, moment, none, number, span, table } from "./dom.js";
import { get } from "./net.js";
import { over, question } from "./dialogs.js";

const STATES = ["running", "sleeping", "waiting", "failed", "parked", "done", "cancelled"];
const KINDS = { failed: "bad", parked: "bad", done: "good", cancelled: "" };
const PAGE = 50;

export function runs(app, params) {
  const state = STATES.includes(params.get("state")) ? params.get("state") : "";
  const name = params.get("name") ?? "";
  let told = null, after = null, looks = 0;
  const trail = [];
  const list = h("div", null, h("p", { class: "empty loading" }, "…"));
  const pager = h("div", { class: "row pager" });
  const select = h("select", { id: "f-state", onchange: () => go() },
    h("option", { value: "" }, "all"), STATES.map((word) => h("option", { value: word, selected: word === state }, word)));
  const input = h("input", { id: "f-name", value: name, placeholder: "any", autocomplete: "off", spellcheck: "false", onchange: () => go() });
  const go = () => {
    const wanted = new URLSearchParams(Object.entries({ state: select.value, name: input.value }).filter(([, value]) => value));
    location.hash = `#runs${wanted.size ? `?${wanted}` : ""}`;
  };
  const element = h("div", { class: "view" }, h("section", { class: "card" },
    h("div", { class: "row head" }, h("h2", null, "Workflows"), h("span", { class: "dim about" }, "The newest first.")),
    h("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); go(); } },
      h("label", { for: "f-state" }, "State", select), h("label", { for: "f-name" }, "Workflow", input)),
    list, pager));
  const columns = [
    { name: "run", class: "break", cell: (r) => h("button", { class: "link", "data-open": r.id, onclick: () => open(r.id) }, r.id) },
    { name: "workflow", cell: (r) => r.name },
    { name: "state", cell: (r) => h("span", { class: `chip ${KINDS[r.state] ?? "warn"}` }, r.state) },
    { name: "begun", cell: (r) => moment(r.created_at, app.now()) },
    { name: "ended", cell: (r) => moment(r.ended_at, app.now()) },
    { name: "", grow: true, class: "failure", cell: (r) => r.failure ? `${r.failure.kind}: ${r.failure.text}`
      : r.waiting_for.length ? `waits for ${r.waiting_for.join(", ")}` : none() },
  ];

  async function load() {
    try {
      told = await get("runs", { state, name, after, limit: PAGE });
    } catch (error) {
      list.replaceChildren(h("p", { class: "empty bad" }, error.message));
      return;
    }
    draw();
  }

  function draw() {
    if (!told) return;
    app.redraw(list, table(columns, told.runs, { label: "Runs", empty: state || name ? "No run that these filters find." : "No run of a workflow yet." }));
    pager.replaceChildren(...(trail.length || told.next ? [
      h("button", { disabled: !trail.length, onclick: () => { after = trail.pop(); load(); } }, "‹ Back"),
      h("span", { class: "dim" }, `page ${trail.length + 1}`),
      h("button", { disabled: !told.next, onclick: () => { trail.push(after); after = told.next; load(); } }, "Further ›")] : []));
  }

  async function act(action, id) {
    if (action === "cancel-run" && !await question({
      title: `Cancel ${id}?`, text: "Nothing further of it begins, nor of its children. What is under way ends, and is recorded.", action: "Cancel it", danger: true,
    })) return;
    await app.act(action, { id }, (said) => `${id}: ${said.outcome}.`);
    load();
  }

  async function open(id) {
    try {
      const run = await get("run", { id });
      const ends = run.ended_at === null;
      const fails = ["failed", "parked"].includes(run.state);
      over(`Run ${run.id}`, drawn(run, app.now()), [
        ...(app.may("cancel") && ends && !fails ? [["Cancel this run", () => act("cancel-run", id), "danger"]] : []),
        ...(app.may("replay") && fails ? [["Let it go on", () => act("resume-run", id), "primary"]] : []),
      ]);
    } catch (error) {
      app.failed(error);
    }
  }

  load();
  return { element, refresh: load, update: () => (++looks % 3 || trail.length ? draw() : load()) };
}

const FATES = { open: (step) => (step.kind === "sleep" ? "sleeps" : "waits"),
  retrying: (step) => `failed ${step.attempts > 1 ? `${number(step.attempts)} times` : "once"}` };

function took(step, now) {
  if (step.seconds !== null) return step.seconds < 1 ? `${Math.round(step.seconds * 1000)} ms` : span(step.seconds);
  const left = step.due === null ? 0 : (new Date(step.due) - now) / 1000;
  return left > 0 ? `${span(left)} left` : `${span((now - new Date(step.began)) / 1000)} so far`;
}

/** Each step where it stood in time; what is open goes on to the right. */
function drawn(run, now) {
  const first = Date.parse(run.created_at);
  const whole = Math.max(1, (run.ended_at ? Date.parse(run.ended_at) : Date.parse(run.at)) - first);
  const place = (iso) => Math.min(100, Math.max(0, 100 * (Date.parse(iso) - first) / whole));
  const bar = (step) => {
    const from = place(step.began);
    const to = step.ended ? place(step.ended) : 100;
    return svg("svg", { class: `bar-${step.fate} track`, viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "rail", x: 0, y: 4.5, width: 100, height: 1 }),
      svg("rect", { class: "step", x: Math.min(from, 99.4), y: 0, width: Math.max(0.6, to - from), height: 10, rx: 0.4 }));
  };
  return [
    h("dl", { class: "fields" }, [
      ["workflow", run.name], ["state", h("span", { class: `chip ${KINDS[run.state] ?? "warn"}` }, run.state)],
      ["begun", moment(run.created_at, now)], ["ended", run.ended_at && moment(run.ended_at, now)],
      ["waits for", run.waiting_for.join(", ")], ["failure", run.failure && h("span", { class: "chip bad" }, run.failure.kind)],
    ].filter(([, value]) => value).map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    run.failure?.text ? block(run.failure.text) : null,
    table([
      { name: "step", class: "break", cell: (s) => h("span", { class: "strong" }, s.name) },
      { name: "kind", cell: (s) => h("span", { class: "dim" }, s.kind) },
      { name: "state", cell: (s) => h("span", { class: `fate-${s.fate}`, title: s.failure ? `${s.failure.kind}: ${s.failure.text}` : null },
        FATES[s.fate]?.(s) ?? (s.attempts > 1 ? `${s.fate} at attempt ${s.attempts}` : s.fate)) },
      { name: "took", right: true, cell: (s) => took(s, now) },
      { name: "", class: "trackcell", cell: bar },
    ], run.steps, { label: "Steps", empty: "It has recorded nothing yet." }),
  ];
}
