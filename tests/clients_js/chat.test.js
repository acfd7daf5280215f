import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";

import { APIUserAbortError } from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { ADDRESS, all, ASKED, City, client, EXTRACT, Order, ORDER, TOLD, UPDATE, user, WEATHER, weather } from "./asks.js";

const completions = client.chat.completions;

test("a chat, whole and streamed", async () => {
  const whole = await completions.create({ ...ASKED, messages: user(EXTRACT) });
  const text = whole.choices[0].message.content;
  assert.equal(whole.choices[0].finish_reason, "stop");
  const options = { stream: true, stream_options: { include_usage: true } };
  const chunks = await all(await completions.create({ ...ASKED, messages: user(EXTRACT), ...options }));
  const deltas = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta.content ?? ""));
  assert.equal(deltas.join(""), text);
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
});

test("a chat is parsed by Zod", async () => {
  const asked = { ...ASKED, messages: user(EXTRACT), response_format: zodResponseFormat(Order, "order") };
  const whole = await completions.parse(asked);
  assert.deepEqual(whole.choices[0].message.parsed, ORDER);
  const stream = completions.stream(asked);
  const grown = [];
  stream.on("content.delta", ({ parsed }) => grown.push(parsed));
  const final = await stream.finalChatCompletion();
  assert.deepEqual(final.choices[0].message.parsed, ORDER);
  assert.deepEqual(grown.at(-1), ORDER);
});

test("answers obey whatever Zod can say, however they are drawn", async () => {
  const Leaf = z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("number"), value: z.number().min(0).max(9).multipleOf(0.5) }),
    z.object({ kind: z.literal("word"), value: z.string().regex(/^[a-z]{1,4}$/) }),
  ]);
  const Tree = z.object({
    id: z.uuid(),
    at: z.iso.datetime({ precision: 0 }), // a small model would not end the digits of a fraction, and an address
    mail: z.email().max(24),
    size: z.enum(["small", "large"]),
    count: z.int().min(1).max(5),
    note: z.string().max(8).nullable(),
    leaves: z.array(Leaf).min(1).max(2),
    get inner() {
      return z.union([Tree, z.null()]);
    },
  });
  const response_format = zodResponseFormat(Tree, "tree");
  // With others the small model draws trees in trees without end.
  for (const seed of [5, 8, 9]) {
    const asked = { model: "demo", messages: user("Draw a tree."), temperature: 0.7, seed, response_format };
    const { choices } = await completions.parse({ ...asked, max_tokens: 3500 });
    assert.ok(choices[0].message.parsed.leaves.length);
  }
});

test("functions of Zod are parsed", async () => {
  const tool = zodFunction({ name: "update_order", description: "Updates an order.", parameters: Order });
  const asked = { ...ASKED, messages: user(UPDATE), tools: [tool], max_tokens: 200 };
  const whole = await completions.parse(asked);
  assert.deepEqual(whole.choices[0].message.tool_calls.map((call) => call.function.parsed_arguments), [ORDER]);
  const stream = completions.stream(asked);
  let grown = "";
  stream.on("tool_calls.function.arguments.delta", (event) => (grown += event.arguments_delta));
  const [call] = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
  assert.deepEqual(call.function.parsed_arguments, ORDER);
  assert.equal(grown, call.function.arguments);
});

for (const stream of [false, true]) {
  test(`the runner of functions, stream: ${stream}`, async () => {
    const told = [];
    const run = (args) => (told.push(args), weather(args));
    const tools = [zodFunction({ name: "get_weather", parameters: City, function: run })];
    const runner = completions.runTools({ ...ASKED, messages: user(WEATHER), tools, max_tokens: 200, stream });
    assert.equal(await runner.finalContent(), TOLD);
    assert.deepEqual(told, [{ city: "Rome" }]);
    assert.deepEqual(runner.messages.map((message) => message.role), ["user", "assistant", "tool", "assistant"]);
  });
}

const metric = async (name) => {
  const lines = (await (await fetch(`${ADDRESS}/metrics`)).text()).split("\n");
  return Number(lines.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1) ?? 0);
};

test("an aborted stream ends on both sides", { timeout: 120_000 }, async () => {
  const CANCELLED = 'llgtrt_requests_total{outcome="cancelled"}';
  const before = await metric(CANCELLED);
  const controller = new AbortController();
  const asked = { model: "demo", messages: user("Hello."), max_tokens: 3500, ignore_eos: true };
  const stream = completions.stream(asked, { signal: controller.signal });
  stream.once("content", () => controller.abort());
  await assert.rejects(stream.done(), APIUserAbortError);
  while ((await metric(CANCELLED)) === before) await wait(50);
  // A loop that is left aborts, too.
  for await (const _ of await completions.create({ ...asked, stream: true })) break;
  while ((await metric(CANCELLED)) < before + 2) await wait(50);
  assert.equal(await metric("llgtrt_running_choices"), 0);
});

test("completions and models", async () => {
  const prompt = `<|im_start|>user\n${EXTRACT}<|im_end|>\n<|im_start|>assistant\n`;
  const asked = { ...ASKED, prompt, max_tokens: 64 };
  const whole = await client.completions.create(asked);
  assert.ok(Object.values(JSON.parse(whole.choices[0].text)).includes(ORDER.quantity));
  const chunks = await all(await client.completions.create({ ...asked, stream: true }));
  assert.equal(chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.text)).join(""), whole.choices[0].text);
  const models = await all(client.models.list());
  assert.deepEqual(models.map((model) => model.id), ["demo"]);
  assert.equal((await client.models.retrieve("demo")).id, "demo");
});
