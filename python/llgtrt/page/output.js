// The form of answers: its kinds, the editor, and what the server says of it.

import { $, debounced } from "./dom.js";
import * as api from "./stream.js";

// For each kind: its name, the placeholder of its text, and the `response_format` that a text becomes.
export const KINDS = {
  text: { name: "free text" },
  schema: {
    name: "JSON schema",
    hint: '{"type": "object", …}',
    format: (text) => ({ type: "json_schema", json_schema: { name: "answer", strict: true, schema: parsed(text) } }),
  },
  regex: { name: "regular expression", hint: "[A-Z]{2}-\\d{4}", format: (text) => ({ type: "regex", regex: text }) },
  lark: {
    name: "Lark grammar",
    hint: 'start: "yes" | "no"',
    format: (text) => ({ type: "lark_grammar", grammar: text }),
  },
  choice: {
    name: "choices, one in each line",
    hint: "news\nsport",
    format: (text) => ({ type: "choice", choices: text.split("\n").map((line) => line.trim()).filter(Boolean) }),
  },
};

// What stands in the editor of each kind.
const texts = {};

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new api.ApiError(`no valid JSON (${error.message})`);
  }
}

// The `response_format` of requests; null for free text.
export function format() {
  const text = $("constraint").value;
  const kind = KINDS[$("kind").value];
  return kind.format && text.trim() ? kind.format($("kind").value === "schema" ? text : text.trim()) : null;
}

function verdict(text, kind) {
  $("verdict").textContent = text;
  $("verdict").className = kind;
}

let pending = 0;

async function check() {
  const number = ++pending;
  try {
    const wanted = format();
    if (!wanted) return verdict("", "");
    const said = await api.check(wanted, $("key").value);
    if (number !== pending) return;
    const less = (said.narrowed ?? []).map((n) => `; less is allowed at ${n.pointer || "/"} ${n.keyword}: ${n.reason}`);
    if (said.ok) verdict(`enforced; compiled in ${said.compile_ms.toFixed(1)} ms${less.join("")}`, "good");
    else verdict(`${[said.pointer, said.keyword].filter(Boolean).join(" ")}: ${said.reason}`, "bad");
  } catch (error) {
    if (number === pending) verdict(error.message, "bad");
  }
}

let shown = "text";

// Shows the editor of the chosen kind with what stood there.
function turn() {
  texts[shown] = $("constraint").value;
  shown = $("kind").value;
  $("constraint").value = texts[shown] ?? "";
  dress();
}

function dress() {
  const kind = KINDS[shown];
  $("constraint").hidden = !kind.format;
  $("constraint").placeholder = kind.hint ?? "";
  $("constraint").setAttribute("aria-label", kind.name);
  check();
}

export function set(kind, text) {
  $("kind").value = kind;
  turn();
  $("constraint").value = text;
  dress();
}

export const state = () => ({ kind: shown, texts: { ...texts, [shown]: $("constraint").value } });

export function begin(kept, changed) {
  for (const [kind, { name }] of Object.entries(KINDS)) $("kind").add(new Option(name, kind));
  if (kept && KINDS[kept.kind]) {
    Object.assign(texts, kept.texts);
    $("kind").value = shown = kept.kind;
    $("constraint").value = texts[shown] ?? "";
  }
  dress();
  $("kind").addEventListener("change", () => {
    turn();
    changed();
  });
  $("constraint").addEventListener("input", debounced(check, 300));
  $("constraint").addEventListener("input", debounced(changed, 300));
}
