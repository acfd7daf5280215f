import { LANGUAGES } from "./code.js";
import * as decisions from "./decide.js";
import { $, debounced } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import * as output from "./output.js";
import { plot, watch } from "./plots.js";
import * as store from "./store.js";
import * as api from "./stream.js";
import * as view from "./view.js";

const FIELDS = ["system", "tools", "tool_choice", "temperature", "top_p", "seed", "max_tokens"];
const SWITCHES = ["speculation", "format"];

const kept = store.load();
const turns = Array.isArray(kept.turns) ? kept.turns : [];
let running = null;
let modelName = "";
// The message whose calls wait for results.
let waiting = null;

function save() {
  const fields = Object.fromEntries(FIELDS.map((id) => [id, $(id).value]));
  const switches = Object.fromEntries(SWITCHES.map((id) => [id, $(id).checked]));
  store.save({ turns, fields, switches, output: output.state() });
}

// ---- the request

function tools() {
  const text = $("tools").value.trim();
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new api.ApiError(`tools: no valid JSON (${error.message})`);
  }
}

// A field that is empty leaves the choice to the server.
const numbers = (ids) =>
  Object.fromEntries(ids.filter((id) => $(id).value.trim() !== "").map((id) => [id, Number($(id).value)]));

const MESSAGE = {
  user: ({ text }) => ({ role: "user", content: text }),
  assistant: ({ text, calls }) => ({ role: "assistant", content: text, ...(calls.length ? { tool_calls: calls } : {}) }),
  tool: ({ id, text }) => ({ role: "tool", tool_call_id: id, content: text }),
};

function request(history) {
  const [format, wanted, system] = [output.format(), tools(), $("system").value.trim()];
  return {
    model: modelName,
    messages: [...(system ? [{ role: "system", content: system }] : []), ...history.map((turn) => MESSAGE[turn.role](turn))],
    ...numbers(["temperature", "top_p", "seed", "max_tokens"]),
    ...(format ? { response_format: format } : {}),
    ...(wanted ? { tools: wanted, tool_choice: $("tool_choice").value } : {}),
    ...($("speculation").checked ? {} : { speculative: { enabled: false } }),
  };
}

const streamed = (body) => ({
  ...body,
  stream: true,
  stream_options: { include_usage: true, include_token_origin: true },
  logprobs: true,
  top_logprobs: 5,
});

// ---- one answer

// Tool calls are told as deltas; what has come of each is put together by its index.
function addToolCalls(calls, deltas) {
  for (const delta of deltas) {
    const call = (calls[delta.index] ??= { id: delta.id, type: "function", function: { name: "", arguments: "" } });
    call.function.name += delta.function?.name ?? "";
    call.function.arguments += delta.function?.arguments ?? "";
  }
}

// A call whose arguments were cut is none.
function isWhole(call) {
  try {
    JSON.parse(call.function.arguments);
    return true;
  } catch {
    return false;
  }
}

// Log-probabilities are those of the content: tokens of reasoning and calls have none.
function pair(origins, logprobs) {
  const left = [...logprobs];
  return origins.map((origin) => (left[0]?.token === origin.token ? { origin, logprob: left.shift() } : { origin }));
}

// Takes the answer in while it comes; throws where it breaks off.
async function take(turn, item, body) {
  const started = performance.now();
  for await (const chunk of api.chat(streamed(body), $("key").value, running.signal)) {
    const choice = chunk.choices[0];
    if (!choice) continue;
    turn.text += choice.delta.content ?? "";
    turn.reasoning += choice.delta.reasoning_content ?? "";
    addToolCalls(turn.calls, choice.delta.tool_calls ?? []);
    const tokens = pair(choice.token_origins ?? [], choice.logprobs?.content ?? []);
    turn.tokens.push(...tokens);
    view.add(item, turn, tokens);
    if (choice.finish_reason === "length") turn.mark = "cut: no more tokens were allowed (Most tokens)";
    const seconds = (performance.now() - started) / 1000;
    const rate = turn.tokens.length / seconds;
    $("speed").value = `${turn.tokens.length} tokens in ${seconds.toFixed(2)} s, ${rate.toFixed(0)} tokens/s`;
  }
  plot("rate", turn.tokens.length / ((performance.now() - started) / 1000), (value) => value.toFixed(0));
}

// Asks for an answer to `asked` behind what was said. What was not answered at all is no part of the conversation.
// `calls`: the message whose results are among them.
async function answer(asked, calls) {
  const turn = { role: "assistant", text: "", reasoning: "", calls: [], tokens: [], mark: "" };
  running = new AbortController();
  const mine = running;
  $("send").disabled = true;
  $("stop").disabled = false;
  const items = asked.map(view.show);
  const item = view.show(turn);
  view.scrollToEnd();
  let failed = null;
  try {
    await take(turn, item, request([...turns, ...asked]));
  } catch (error) {
    failed = error;
    if (error.name === "AbortError") turn.mark = "stopped";
    else [turn.mark, turn.error] = [error.message, true];
  }
  if (running !== mine) return; // another conversation has begun
  turn.calls = turn.calls.filter(Boolean).filter(isWhole);
  const told = turn.text || turn.calls.length;
  if (!failed || (told && !turn.error)) {
    turns.push(...asked, turn);
    finish(item, turn);
  } else {
    // What failed can be read, and sent again.
    view.end(item, { ...turn, calls: [] }, null);
    if (!turn.error) [...items, item].forEach((shown) => shown.remove());
    restore(asked, items, calls);
  }
  running = null;
  $("send").disabled = false;
  $("stop").disabled = true;
  save();
  code();
  if (!waiting) $("prompt").focus();
}

function finish(item, turn) {
  waiting = turn.calls.length ? { item, turn } : null;
  view.end(item, turn, waiting && sendResults);
}

// Puts what was not answered back where it was typed.
function restore(asked, items, calls) {
  const user = asked.find((turn) => turn.role === "user");
  if (user && !$("prompt").value) $("prompt").value = user.text;
  if (!calls) return;
  waiting = calls;
  asked.forEach((turn, i) => turn.role === "tool" && items[i].remove());
  view.askResults(calls.item, calls.turn, sendResults, asked.map((turn) => turn.text));
}

// ---- what the user sends

// Sends what was typed, and the results of calls before it.
function submit(typed) {
  if (running) return;
  const calls = waiting;
  waiting = null;
  const texts = calls ? view.takeResults(calls.item) : [];
  const results = (calls?.turn.calls ?? []).map(({ id, function: { name } }, i) => ({ role: "tool", id, name, text: texts[i] }));
  answer([...results, ...typed], calls);
}

const sendResults = () => submit([]);

function send(event) {
  event.preventDefault();
  const prompt = $("prompt").value.trim();
  if (!prompt || running) return;
  $("prompt").value = "";
  submit([{ role: "user", text: prompt }]);
}

function clear() {
  running?.abort();
  running = waiting = null;
  turns.length = 0;
  $("messages").replaceChildren();
  $("send").disabled = false;
  $("stop").disabled = true;
  save();
  code();
  $("prompt").focus();
}

// ---- settings

function choose() {
  const { schema, kind, text, prompt } = EXAMPLES[$("example").value];
  if (kind) output.set(kind, text);
  else output.set(schema ? "schema" : "text", schema ? JSON.stringify(schema, null, 2) : "");
  if (prompt) $("prompt").value = prompt;
  changed();
}

function code() {
  try {
    const prompt = $("prompt").value.trim() || "…";
    const body = request([...turns, { role: "user", text: prompt }]);
    $("code").value = LANGUAGES[$("language").value](location.origin, body);
  } catch (error) {
    $("code").value = error.message;
  }
}

function changed() {
  save();
  code();
}

function dressMessages() {
  document.body.classList.toggle("format", $("format").checked);
}

async function greet() {
  try {
    modelName = await api.model($("key").value);
    $("engine").textContent = `${modelName} — ${(await api.ready()).promise ?? "loading"}`;
  } catch (error) {
    $("engine").textContent = error.message;
  }
  code();
}

// ---- the beginning

function recall() {
  for (const id of FIELDS) if (typeof kept.fields?.[id] === "string") $(id).value = kept.fields[id];
  for (const id of SWITCHES) if (typeof kept.switches?.[id] === "boolean") $(id).checked = kept.switches[id];
  dressMessages();
  turns.forEach((turn, i) => {
    const item = view.show(turn);
    if (turn.role !== "assistant") return;
    if (i === turns.length - 1) finish(item, turn);
    else view.end(item, turn, null);
  });
  view.scrollToEnd();
}

$("form").addEventListener("submit", send);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
});
$("stop").addEventListener("click", () => running?.abort());
$("clear").addEventListener("click", clear);
$("example").addEventListener("change", choose);
$("key").addEventListener("change", greet);
$("format").addEventListener("change", dressMessages);
$("copy").addEventListener("click", () => navigator.clipboard.writeText($("code").value));
for (const id of ["prompt", ...FIELDS, ...SWITCHES, "language"]) {
  $(id).addEventListener("input", debounced(changed, 300));
}
EXAMPLES.forEach(({ name }, i) => $("example").add(new Option(name, i)));
view.begin();
recall();
output.begin(kept.output, changed);
decisions.begin();
greet();
watch();
setInterval(watch, 1000);
