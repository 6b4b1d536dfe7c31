// What stands over the page: questions, one message, short notes of what was done.

import { h, block, moment, number } from "./dom.js";
import { get, setToken, token } from "./net.js";

export function toast(text, kind = "good") {
  const note = h("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 5000);
}

/** Shows a dialog until it is closed; what it was closed with. */
function shown(dialog) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus?.();
      resolve(dialog.returnValue);
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close("");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const isOpen = () => document.querySelector("dialog[open]") !== null;

/** A question with fields; their values, or null. A field: {name, label, type, value, hint}. */
export async function question({ title, text, action, danger, fields = [] }) {
  const inputs = fields.map((field) => h("input", {
    id: `ask-${field.name}`, type: field.type ?? "text", value: field.value ?? "",
    autocomplete: "off", spellcheck: "false", maxlength: field.maxlength, min: field.min, max: field.max, step: field.step,
  }));
  const yes = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
  const dialog = h("dialog", { class: "ask", "aria-labelledby": "ask-title" },
    h("h2", { id: "ask-title" }, title), (Array.isArray(text) ? text : [text]).map((t) => h("p", null, t)),
    h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); dialog.close("yes"); } },
      fields.map((field, i) => h("label", { for: `ask-${field.name}` }, field.label, inputs[i],
        field.hint ? h("small", null, field.hint) : null)),
      h("div", { class: "row end" },
        h("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"), yes)));
  const answer = shown(dialog);
  (inputs[0] ?? yes).focus();
  if (await answer !== "yes") return null;
  return Object.fromEntries(fields.map((field, i) => [field.name, inputs[i].value]));
}

/** Asks for the token, where there is none yet; whether there is one now. */
export async function unlocked(why) {
  if (token()) return true;
  const given = await question({
    title: "Token", text: [why, "It stays in this tab until you close it."], action: "Unlock",
    fields: [{ name: "token", label: "Token", type: "password" }],
  });
  if (!given?.token) return false;
  setToken(given.token.trim());
  return true;
}

export function keys(list) {
  const dialog = h("dialog", { class: "ask", "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keys"),
    h("dl", { class: "keys" }, list.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])),
    h("div", { class: "row end" }, h("button", { onclick: () => dialog.close("") }, "Close")));
  return shown(dialog);
}

const FIELDS = [
  ["queue", (m) => m.queue], ["key", (m) => m.key], ["lane", (m) => m.lane], ["state", (m) => m.state],
  ["attempt", (m) => number(m.attempt)], ["generation", (m) => number(m.generation)],
  ["enqueued", (m, now) => moment(m.enqueued_at, now)],
  ["due", (m, now) => m.due && moment(m.due, now)], ["ended", (m, now) => m.settled_at && moment(m.settled_at, now)],
  ["failure", (m) => m.failure && h("span", { class: "chip bad" }, m.failure.kind)],
  ["code", (m) => m.failure?.code],
];

/** One message; `actions`: [label, act] of what may be done to it. */
export function one(app, message, actions) {
  const payload = h("div", { class: "payload" });
  const show = async () => {
    if (!await unlocked("To show a payload needs the token.")) return;
    try {
      const told = await get(`messages/${message.id}/content`);
      payload.replaceChildren(...["payload", "envelope", "headers", "result"].flatMap((name) => told[name] === null ? [] : [
        h("h3", null, name), block(told[name].text), told[name].cut ? h("p", { class: "dim" }, "… and more: the rest is not shown here.") : "",
      ]));
    } catch (error) {
      app.failed(error);
    }
  };
  const rows = FIELDS.map(([name, value]) => [name, value(message, app.now())]).filter(([, value]) => value);
  return over(`Message ${message.id}`, [
    h("dl", { class: "fields" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
    message.failure?.text ? block(message.failure.text) : null,
    payload,
  ], actions, app.may("payloads") ? h("button", { onclick: show }, "Show payload") : h("small", { class: "dim" }, "Payloads are not shown by this dashboard."));
}

/** Something over the page under a title; `actions`: [label, act, style] of what may be done to it. */
export function over(title, content, actions, foot = null) {
  const dialog = h("dialog", { class: "message", "aria-labelledby": "one-title" },
    h("div", { class: "row" }, h("h2", { id: "one-title" }, title), h("span", { class: "space" }),
      h("button", { class: "quiet icon", "aria-label": "Close", onclick: () => dialog.close("") }, "✕")),
    content,
    foot || actions.length ? h("div", { class: "row end" }, foot, h("span", { class: "space" }),
      actions.map(([label, act, style]) => h("button", { class: style, onclick: () => { dialog.close(""); act(); } }, label))) : null);
  return shown(dialog);
}
