// Samples over time, and their plots, drawn by hand as SVG. A sample is what one status told.

import { h, svg, rate, number, span } from "./dom.js";

const KEPT = "fencepost samples";
const SPAN = 600; // seconds that are kept, and shown at most
const SPANS = [60, 120, 300, SPAN];
const SMOOTH = 6; // seconds over which a rate is taken: workers settle in batches
const GAP = 30; // seconds without a sample: the line is interrupted

/** What the page saw, of each queue and in all; kept in this tab over a reload. */
export class Samples {
  constructor(path) {
    this.path = path;
    this.list = [];
    try {
      const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
      if (kept?.path === path) this.list = kept.list.map(([at, queues]) => ({ at, queues: new Map(queues) }));
    } catch {
      this.list = [];
    }
  }

  /** `at` in seconds on the file's clock. */
  add(told) {
    const at = Date.parse(told.time) / 1000;
    const last = this.list.at(-1);
    if (last && at <= last.at) {
      if (at < last.at - 5) this.list = []; // another clock, or another file
      else return;
    }
    const queues = new Map(told.queues.map((queue) => [queue.name, [queue.ended, inLine(queue)]]));
    this.list.push({ at, queues });
    this.list = this.list.filter((sample) => sample.at >= at - SPAN);
  }

  /** For the page that comes after a reload. */
  keep() {
    try {
      const list = this.list.map((sample) => [sample.at, [...sample.queues]]);
      sessionStorage.setItem(KEPT, JSON.stringify({ path: this.path, list }));
    } catch {
      sessionStorage.removeItem(KEPT); // too many queues for what a tab may keep
    }
  }

  get now() {
    return this.list.at(-1)?.at ?? 0;
  }

  /** Seconds that a plot of these shows: as few as hold them. */
  get span() {
    const seconds = this.list.length ? this.now - this.list[0].at : 0;
    return SPANS.find((span) => seconds <= span) ?? SPAN;
  }

  /** How many ended in a second, sample by sample; of all queues, or of one. Purges are no rate. */
  ended(name = null) {
    return this.list.slice(1).map((sample, i) => ({ at: sample.at, value: this.rate(i + 1, name) }));
  }

  /** Up to a sample; null where none was shortly before it. */
  rate(index, name) {
    const after = this.list[index];
    let first = index;
    while (first > 0 && after.at - this.list[first].at < SMOOTH && this.list[first].at - this.list[first - 1].at <= GAP) first--;
    if (first === index) return null;
    const before = this.list[first];
    let count = 0;
    for (const queue of name === null ? after.queues.keys() : [name]) {
      const [now, then] = [after.queues.get(queue), before.queues.get(queue)];
      if (now && then) count += Math.max(0, now[0] - then[0]);
    }
    return count / (after.at - before.at);
  }

  lately(name = null) {
    return this.list.length > 1 ? this.rate(this.list.length - 1, name) : null;
  }

  line(name = null) {
    return this.list.map(({ at, queues }) => {
      const these = name === null ? [...queues.values()] : queues.has(name) ? [queues.get(name)] : [];
      return { at, value: these.reduce((sum, [, count]) => sum + count, 0) };
    });
  }
}

export const inLine = (queue) => queue.pending + queue.waiting + queue.leased;

/** The least round number that is not below. */
function roundUp(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

/** Unbroken pieces of a line. */
function pieces(points) {
  const found = [[]];
  for (const [i, point] of points.entries()) {
    const broken = point.value === null || (i > 0 && point.at - points[i - 1].at > GAP);
    if (broken && found.at(-1).length) found.push([]);
    if (point.value !== null) found.at(-1).push(point);
  }
  return found.filter((piece) => piece.length);
}

const HEIGHT = 150, LEFT = 44, RIGHT = 8, TOP = 10, BOTTOM = 20;

/** A plot of the last minutes; its figure under the pointer, or with the arrow keys. */
export function plot({ title, points, now, span: seconds, words, kind }) {
  const WIDTH = innerWidth > 720 ? 600 : 340; // letters stay as large as they are elsewhere
  const most = roundUp(Math.max(0, ...points.map((p) => p.value ?? 0)));
  const x = (at) => LEFT + (WIDTH - LEFT - RIGHT) * (1 - (now - at) / seconds);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const path = (piece) => piece.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(p.value).toFixed(1)}`).join("");
  const ground = y(0);
  const marks = [0, most / 2, most].map((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
    svg("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)),
  ]);
  const times = [seconds, seconds / 2, 0].map((ago, i) => svg("text", {
    class: "tick", x: x(now - ago), y: HEIGHT - 4, "text-anchor": ["start", "middle", "end"][i],
  }, ago ? `${span(ago)} ago` : "now"));
  const lines = pieces(points).map((piece) => [
    svg("path", { class: "area", d: `${path(piece)}L${x(piece.at(-1).at).toFixed(1)} ${ground}L${x(piece[0].at).toFixed(1)} ${ground}Z` }),
    svg("path", { class: "line", d: path(piece) }),
    svg("circle", { class: "end", cx: x(piece.at(-1).at), cy: y(piece.at(-1).value), r: 2.5 }),
  ]);
  const cursor = svg("g", { class: "cursor", visibility: "hidden" },
    svg("line", { y1: TOP, y2: ground }), svg("circle", { r: 4 }));
  const known = points.filter((p) => p.value !== null);
  const latest = known.at(-1);
  const readout = h("output", { class: "readout" });
  const say = (point) => {
    readout.replaceChildren(point ? `${words(point.value)}${point === latest ? "" : `, ${span(now - point.at)} ago`}` : "gathering…");
  };
  say(latest);
  let shown = -1;
  const show = (index) => {
    shown = Math.max(0, Math.min(known.length - 1, index));
    const point = known[shown];
    if (!point) return;
    cursor.setAttribute("visibility", "visible");
    cursor.firstChild.setAttribute("x1", x(point.at));
    cursor.firstChild.setAttribute("x2", x(point.at));
    cursor.lastChild.setAttribute("cx", x(point.at));
    cursor.lastChild.setAttribute("cy", y(point.value));
    say(point);
  };
  const hide = () => {
    shown = -1;
    cursor.setAttribute("visibility", "hidden");
    say(latest);
  };
  const drawing = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: `plot ${kind}`, role: "img", tabindex: 0,
    "aria-label": `${title}, the last ${span(seconds)}: ${latest ? words(latest.value) : "gathering"} now, at most ${words(Math.max(0, ...known.map((p) => p.value)))}`,
    onpointermove: (event) => {
      const box = drawing.getBoundingClientRect();
      const at = now - seconds * (1 - ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT));
      let nearest = 0;
      known.forEach((p, i) => {
        if (Math.abs(p.at - at) < Math.abs(known[nearest].at - at)) nearest = i;
      });
      show(nearest);
    },
    onpointerleave: hide,
    onblur: hide,
    onkeydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show((shown < 0 ? known.length - 1 : shown) + step);
    },
  }, marks, times, lines, cursor);
  return h("figure", { class: "card" }, h("figcaption", null, h("h2", null, title), readout), drawing);
}

function short(value) {
  if (value >= 1e6) return `${rate(value / 1e6)} M`;
  if (value >= 1e4) return `${rate(value / 1e3)} k`;
  return Number.isInteger(value) ? number(value) : String(value);
}

/** A line as small as a word. */
export function spark(points, now, seconds) {
  const most = Math.max(1, ...points.map((p) => p.value ?? 0));
  const x = (at) => 80 * (1 - (now - at) / seconds);
  const y = (value) => 20 - 18 * (value / most);
  const lines = pieces(points).map((piece) => svg("path", {
    class: "line", d: piece.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(p.value).toFixed(1)}`).join(""),
  }));
  return svg("svg", { viewBox: "0 0 80 22", class: "spark", "aria-hidden": "true" }, lines);
}
