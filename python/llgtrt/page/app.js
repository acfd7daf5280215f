import { EXAMPLES } from "./examples.js";
import * as api from "./stream.js";

const $ = (id) => document.getElementById(id);
const messages = [];
let running = null;
let modelName = "";

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// ---- the request

function json(id) {
  const text = $(id).value.trim();
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new api.ApiError(`${id}: no valid JSON (${error.message})`);
  }
}

function request(history) {
  const [schema, tools] = [json("schema"), json("tools")];
  return {
    model: modelName,
    messages: history,
    temperature: Number($("temperature").value),
    top_p: Number($("top_p").value),
    seed: Number($("seed").value),
    max_tokens: Number($("max_tokens").value),
    ...(schema ? { response_format: { type: "json_schema", json_schema: { name: "answer", strict: true, schema } } } : {}),
    ...(tools ? { tools, tool_choice: $("tool_choice").value } : {}),
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

function show(role) {
  const item = element("li", role);
  item.append(element("h2", "", role === "user" ? "You" : "Model"));
  const text = element("p");
  item.append(text);
  $("messages").append(item);
  item.scrollIntoView({ block: "nearest" });
  return text;
}

function tokenSpan(origin, logprob) {
  const span = element("span", `token ${origin.source ?? "sampled"}`, origin.token);
  if (origin.refused.length) span.classList.add("refusing");
  span.tabIndex = origin.refused.length ? 0 : -1;
  span.detail = { origin, logprob };
  return span;
}

// Tool calls are told as deltas; what has come of each is put together by its index.
function addToolCalls(calls, deltas) {
  for (const delta of deltas) {
    const call = (calls[delta.index] ??= { id: delta.id, type: "function", function: { name: "", arguments: "" } });
    call.function.name += delta.function?.name ?? "";
    call.function.arguments += delta.function?.arguments ?? "";
  }
}

async function answer(body, place) {
  const started = performance.now();
  const state = { text: "", tokens: 0, calls: [], usage: null };
  for await (const chunk of api.chat(streamed(body), $("key").value, running.signal)) {
    if (chunk.usage) state.usage = chunk.usage;
    const choice = chunk.choices[0];
    if (!choice) continue;
    state.text += choice.delta.content ?? "";
    addToolCalls(state.calls, choice.delta.tool_calls ?? []);
    const logprobs = choice.logprobs?.content ?? [];
    (choice.token_origins ?? []).forEach((origin, i) => place.append(tokenSpan(origin, logprobs[i])));
    state.tokens += (choice.token_origins ?? []).length;
    const seconds = (performance.now() - started) / 1000;
    $("speed").value = `${state.tokens} tokens in ${seconds.toFixed(2)} s, ${(state.tokens / seconds).toFixed(0)} tokens/s`;
  }
  state.seconds = (performance.now() - started) / 1000;
  return state;
}

function remember(state) {
  const calls = state.calls.filter(Boolean);
  messages.push({ role: "assistant", content: state.text, ...(calls.length ? { tool_calls: calls } : {}) });
  plot("rate", state.tokens / state.seconds, (value) => value.toFixed(0));
}

async function send(event) {
  event.preventDefault();
  const prompt = $("prompt").value.trim();
  if (!prompt || running) return;
  running = new AbortController();
  $("send").disabled = true;
  $("stop").disabled = false;
  const history = [...messages, { role: "user", content: prompt }];
  show("user").textContent = prompt;
  const place = show("assistant");
  try {
    const body = request(history);
    messages.push({ role: "user", content: prompt });
    $("prompt").value = "";
    remember(await answer(body, place));
  } catch (error) {
    if (error.name !== "AbortError") place.append(element("span", "error", error.message));
    // What was not answered is no part of the conversation.
    if (messages.at(-1)?.role === "user") messages.pop();
  } finally {
    running = null;
    $("send").disabled = false;
    $("stop").disabled = true;
    $("prompt").focus();
  }
}

// ---- what a token tells when it is pointed at or focused

function tip(span) {
  const { origin, logprob } = span.detail;
  const box = $("tip");
  box.replaceChildren();
  box.append(element("div", "", `token ${origin.id}: ${origin.source ?? "sampled by the target"}`));
  if (logprob) {
    box.append(element("div", "", `probability ${(100 * Math.exp(logprob.logprob)).toFixed(1)} %`));
    const table = element("table");
    for (const other of logprob.top_logprobs) {
      const row = element("tr");
      row.append(element("td", "", JSON.stringify(other.token)));
      row.append(element("td", "", `${(100 * Math.exp(other.logprob)).toFixed(1)} %`));
      table.append(row);
    }
    box.append(table);
  }
  if (origin.refused.length) {
    const line = element("div", "", `refused (${origin.refused[0].source}): `);
    line.append(element("s", "", origin.refused.map((token) => token.token).join("")));
    box.append(line);
  }
  const at = span.getBoundingClientRect();
  box.hidden = false;
  box.style.left = `${Math.min(at.left, innerWidth - box.offsetWidth - 8)}px`;
  const below = at.bottom + 4;
  box.style.top = `${below + box.offsetHeight > innerHeight ? at.top - box.offsetHeight - 4 : below}px`;
}

for (const [event, on] of [["mouseover", true], ["focusin", true], ["mouseout", false], ["focusout", false]]) {
  $("messages").addEventListener(event, ({ target }) => {
    if (on && target.detail?.origin) tip(target);
    else $("tip").hidden = true;
  });
}

// ---- the schema editor

let pending = 0;

function verdict(text, kind) {
  $("verdict").textContent = text;
  $("verdict").className = kind;
}

async function checkSchema() {
  const number = ++pending;
  try {
    const schema = json("schema");
    if (!schema) return verdict("", "");
    const said = await api.check(schema, $("key").value);
    if (number !== pending) return;
    const less = (said.narrowed ?? []).map((n) => `; less is allowed at ${n.pointer || "/"} ${n.keyword}: ${n.reason}`);
    if (said.ok) verdict(`enforced; compiled in ${said.compile_ms.toFixed(1)} ms${less.join("")}`, "good");
    else verdict(`${said.pointer || "/"} ${said.keyword}: ${said.reason}`, "bad");
  } catch (error) {
    if (number === pending) verdict(error.message, "bad");
  }
}

function debounced(act, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, milliseconds);
  };
}

function choose() {
  const { schema, prompt } = EXAMPLES[$("example").value];
  $("schema").value = schema ? JSON.stringify(schema, null, 2) : "";
  if (prompt) $("prompt").value = prompt;
  checkSchema();
  code();
}

// ---- plots

const series = { rate: [], acceptance: [], queue: [] };

function plot(name, value, format) {
  const points = series[name];
  points.push(value);
  if (points.length > 60) points.shift();
  $(name).textContent = format(value);
  const most = Math.max(...points, 1e-9);
  const path = points.map((y, x) => `${x ? "L" : "M"}${x} ${(28 - (26 * y) / most).toFixed(1)}`).join("");
  const svg = document.querySelector(`svg[data-plot=${name}]`);
  svg.setAttribute("viewBox", "0 0 60 30");
  svg.setAttribute("preserveAspectRatio", "none");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.replaceChildren(line);
}

let before = null;

async function watch() {
  try {
    const now = await api.metrics();
    const since = (name) => (before ? (now[name] ?? 0) - (before[name] ?? 0) : 0);
    const drafted = since("llgtrt_drafted_tokens_total");
    if (drafted > 0) plot("acceptance", since("llgtrt_accepted_tokens_total") / drafted, (v) => `${(100 * v).toFixed(0)} %`);
    plot("queue", now.llgtrt_waiting_requests ?? 0, (v) => v.toFixed(0));
    before = now;
  } catch {
    // The server is gone; the next look may find it again.
  }
}

// ---- the request as code

const LANGUAGES = {
  curl: (url, body) =>
    `curl ${url}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '${body.replaceAll("'", "'\\''")}'`,
  Python: (url, body) =>
    `import json\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${url}/v1", api_key="none")\n` +
    `body = json.loads(r'''${body.replaceAll("'''", "\\u0027\\u0027\\u0027")}''')\n` +
    `extra = {"speculative": body.pop("speculative")} if "speculative" in body else None\n` +
    `answer = client.chat.completions.create(**body, extra_body=extra)\nprint(answer.choices[0].message.content)`,
  TypeScript: (url, body) =>
    `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${url}/v1", apiKey: "none" });\n` +
    // `speculative` is not in the SDK's types.
    `const answer = await client.chat.completions.create(${body}` +
    `${"speculative" in JSON.parse(body) ? " as OpenAI.ChatCompletionCreateParamsNonStreaming" : ""});\n` +
    `console.log(answer.choices[0].message.content);`,
};

function code() {
  try {
    const prompt = $("prompt").value.trim() || "…";
    const body = request([...messages, { role: "user", content: prompt }]);
    $("code").value = LANGUAGES[$("language").value](location.origin, JSON.stringify(body, null, 2));
  } catch (error) {
    $("code").value = error.message;
  }
}

// ---- the beginning

async function greet() {
  try {
    modelName = await api.model($("key").value);
    $("engine").textContent = `${modelName} — ${(await api.ready()).promise ?? "loading"}`;
  } catch (error) {
    $("engine").textContent = error.message;
  }
  code();
}

$("form").addEventListener("submit", send);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
});
$("stop").addEventListener("click", () => running?.abort());
$("clear").addEventListener("click", () => {
  running?.abort();
  messages.length = 0;
  $("messages").replaceChildren();
  $("prompt").focus();
});
$("schema").addEventListener("input", debounced(checkSchema, 300));
$("example").addEventListener("change", choose);
$("key").addEventListener("change", greet);
$("copy").addEventListener("click", () => navigator.clipboard.writeText($("code").value));
for (const id of ["prompt", "schema", "tools", "tool_choice", "temperature", "top_p", "seed", "max_tokens", "speculation", "language"]) {
  $(id).addEventListener("input", debounced(code, 300));
}
EXAMPLES.forEach(({ name }, i) => $("example").add(new Option(name, i)));
greet();
watch();
setInterval(watch, 1000);
