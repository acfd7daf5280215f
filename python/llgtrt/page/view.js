// The conversation on the page: messages, their tokens, and what a token tells.

import { $, element, percent } from "./dom.js";
import { formatted } from "./text.js";

const NAMES = { user: "You", assistant: "Model", tool: "Result" };

// The view follows an answer unless the reader has scrolled away from its end.
function following(act) {
  const box = $("messages");
  const near = box.scrollHeight - box.scrollTop - box.clientHeight < 60;
  const made = act();
  if (near) box.scrollTop = box.scrollHeight;
  return made;
}

export const scrollToEnd = () => ($("messages").scrollTop = $("messages").scrollHeight);

// Shows a turn of the conversation; the item, to which tokens can be added.
export function show(turn) {
  const item = element("li", turn.role);
  item.append(element("h2", "", turn.role === "tool" ? `${NAMES.tool} of ${turn.name}` : NAMES[turn.role]));
  if (turn.role === "assistant") {
    item.append(element("p", "tokens"), element("div", "formatted"));
    // Where tokens were not kept, the text stands for them.
    if (turn.tokens) add(item, turn, turn.tokens);
    else item.querySelector(".tokens").textContent = turn.text;
  } else {
    item.append(element("p", "", turn.text));
  }
  following(() => $("messages").append(item));
  return item;
}

export function add(item, turn, tokens) {
  following(() => {
    item.querySelector(".tokens").append(...tokens.map(tokenSpan));
    if (document.body.classList.contains("format")) format(item, turn);
  });
}

export function format(item, turn) {
  const parts = [];
  if (turn.reasoning) {
    const details = element("details", "reasoning");
    details.append(element("summary", "", "Reasoning"), element("p", "", turn.reasoning));
    parts.push(details);
  }
  item.querySelector(".formatted").replaceChildren(...parts, formatted(turn.text));
}

// Says how an answer ended, if not by itself, and shows its calls. `send`: what to do with their results; null once they are known.
export function end(item, turn, send) {
  following(() => {
    format(item, turn);
    if (turn.mark) item.append(element("p", `mark ${turn.error ? "error" : ""}`, turn.mark));
    if (turn.calls.length) item.append(calls(turn, send));
  });
}

function calls(turn, send) {
  const form = element("form", "calls");
  turn.calls.forEach((call, i) => {
    form.append(element("pre", "", `${call.function.name}(${call.function.arguments})`));
    if (!send) return;
    const label = element("label", "", `Result of ${call.function.name}`);
    const text = element("textarea", "result");
    text.rows = 2;
    text.id = label.htmlFor = `result-${call.id}-${i}`;
    form.append(label, text);
  });
  if (!send) return form;
  const button = element("button", "results", "Send the results");
  button.type = "submit";
  form.append(button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  return form;
}

// Asks again for results that could not be sent.
export function askResults(item, turn, send, texts) {
  item.querySelector(".calls").replaceWith(calls(turn, send));
  item.querySelectorAll(".result").forEach((field, i) => (field.value = texts[i]));
}

// Takes the results out of their fields, which go.
export function takeResults(item) {
  const texts = [...item.querySelectorAll(".result")].map((field) => field.value);
  item.querySelectorAll(".calls label, .result, .results").forEach((part) => part.remove());
  return texts;
}

// ---- tokens

function tokenSpan({ origin, logprob }) {
  const span = element("span", `token ${origin.source ?? "sampled"}`, origin.token);
  const steered = origin.allowed !== undefined && origin.allowed < 0.5;
  if (origin.refused.length) span.classList.add("refusing");
  if (steered) span.classList.add("steered");
  span.tabIndex = origin.refused.length || steered ? 0 : -1;
  span.detail = { origin, logprob };
  return span;
}

function free(origin) {
  const lines = [element("div", "", `the constraint allowed ${percent(origin.allowed)} of the probability`)];
  const { likeliest } = origin;
  if (!likeliest) return lines;
  const same = likeliest.id === origin.id;
  const said = same ? "this token" : JSON.stringify(likeliest.token);
  return [...lines, element("div", "", `likeliest without it: ${said}, ${percent(likeliest.probability)}`)];
}

function tip(span) {
  const { origin, logprob } = span.detail;
  const box = $("tip");
  box.replaceChildren();
  box.append(element("div", "", `token ${origin.id}: ${origin.source ?? "sampled by the target"}`));
  if (logprob) {
    box.append(element("div", "", `probability ${percent(Math.exp(logprob.logprob))}`));
    const table = element("table");
    for (const other of logprob.top_logprobs) {
      const row = element("tr");
      row.append(element("td", "", JSON.stringify(other.token)), element("td", "", percent(Math.exp(other.logprob))));
      table.append(row);
    }
    box.append(table);
  }
  if (origin.allowed !== undefined) box.append(...free(origin));
  if (origin.refused.length) {
    const line = element("div", "", `refused (${origin.refused[0].source}): `);
    line.append(element("s", "", origin.refused.map((token) => token.token).join("")));
    box.append(line);
  }
  const at = span.getBoundingClientRect();
  box.hidden = false;
  box.style.left = `${Math.max(0, Math.min(at.left, innerWidth - box.offsetWidth - 8))}px`;
  const below = at.bottom + 4;
  box.style.top = `${below + box.offsetHeight > innerHeight ? at.top - box.offsetHeight - 4 : below}px`;
}

export function begin() {
  for (const [event, on] of [["mouseover", true], ["focusin", true], ["mouseout", false], ["focusout", false]]) {
    $("messages").addEventListener(event, ({ target }) => {
      if (on && target.detail?.origin) tip(target);
      else $("tip").hidden = true;
    });
  }
}
