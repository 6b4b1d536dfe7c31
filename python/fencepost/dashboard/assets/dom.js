// Making elements, and words for values. Whatever comes out of a file becomes a text node and
// nothing else: no function here, or anywhere in this page, reads a string as markup.

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

/** The text with everything that is no visible character written out; `lines`: but for line ends. */
export function visible(text, lines = false) {
  return String(text).replace(INVISIBLE, (c) =>
    lines && (c === "\n" || c === "\t") ? c : `\\u{${c.codePointAt(0).toString(16)}}`);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== undefined && child !== null && child !== false) {
      element.append(document.createTextNode(visible(child)));
    }
  }
}

/** h("td", {class: "n"}, 5): an element. Names of elements and attributes are this page's own. */
export const h = (tag, props, ...children) => filled(document.createElement(tag), props, children);

export const svg = (tag, props, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

/** Text with its line ends, in a block that scrolls. */
export function block(text) {
  const made = h("pre", { tabindex: 0 });
  made.append(document.createTextNode(visible(text, true)));
  return made;
}

// ---- words for values ----

const whole = new Intl.NumberFormat("en-US");
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(1) : whole.format(Math.round(value));
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Seconds as a person says them: 0.4 s, 12 s, 3 min, 2 h 5 min. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds < 0.05 ? "now" : `${seconds.toFixed(1)} s`;
  const at = UNITS.findIndex(([size]) => seconds >= size);
  const [size, unit] = UNITS[at];
  const count = Math.floor(seconds / size);
  const [below, lower] = UNITS[at + 1] ?? [0, ""];
  const rest = below && count < 10 ? Math.floor((seconds - count * size) / below) : 0;
  return rest ? `${count} ${unit} ${rest} ${lower}` : `${count} ${unit}`;
}

/** What is nothing: paler, and on a phone left out. */
export const none = (text = "–") => h("span", { class: "dim none" }, text);

/** A moment beside now, which the file's own clock says; the whole of it where one points at it. */
export function moment(iso, now) {
  if (!iso) return none();
  const away = (new Date(iso) - now) / 1000;
  const words = away > 0.5 ? `in ${span(away)}` : away < -0.5 ? `${span(-away)} ago` : "now";
  return h("time", { datetime: iso, title: new Date(iso).toLocaleString() + "\n" + iso }, words);
}

// ---- tables that become cards where a screen is narrow ----

/** columns: [{name, cell(row), right, grow}]; rows: their values; empty: what to say of none. */
export function table(columns, rows, { label, empty, row: dress } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty ?? "Nothing here.");
  const head = columns.map((c) => h("th", { scope: "col", class: c.right ? "n" : null }, c.head ?? c.name));
  const body = rows.map((row) => {
    const cells = columns.map((c) => {
      const of = [c.right ? "n" : "", c.grow ? "grow" : "", c.class ?? ""].join(" ").trim();
      return h("td", { class: of || null, "data-label": c.name }, c.cell(row));
    });
    return h("tr", dress ? dress(row) : null, cells);
  });
  return h("div", { class: "scroll" },
    h("table", { "aria-label": label }, h("thead", null, h("tr", null, head)), h("tbody", null, body)));
}
