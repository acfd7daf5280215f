import assert from "node:assert/strict";
import { test } from "node:test";

import { Ollama } from "ollama";
import { z } from "zod";

import { ADDRESS, all, City, EXTRACT, Order, ORDER, TOLD, UPDATE, user, WEATHER, weather } from "./asks.js";

const ollama = new Ollama({ host: ADDRESS });
const ASKED = { model: "demo:latest", options: { temperature: 0 } };

const order = {
  type: "function",
  function: { name: "update_order", description: "", parameters: z.toJSONSchema(Order) },
};

test("a chat, whole and streamed", async () => {
  const whole = await ollama.chat({ ...ASKED, messages: user(EXTRACT) });
  assert.equal(whole.done_reason, "stop");
  const lines = await all(await ollama.chat({ ...ASKED, messages: user(EXTRACT), stream: true }));
  assert.equal(lines.map((line) => line.message.content).join(""), whole.message.content);
  assert.equal(lines.at(-1).eval_count, whole.eval_count);
});

test("an answer has the form of a schema", async () => {
  const format = z.toJSONSchema(Order);
  const { message } = await ollama.chat({ ...ASKED, messages: user(EXTRACT), format });
  assert.deepEqual(JSON.parse(message.content), ORDER);
});

test("functions are called, and their results are read", async () => {
  const { message } = await ollama.chat({ ...ASKED, messages: user(UPDATE), tools: [order] });
  assert.deepEqual(message.tool_calls[0].function, { name: "update_order", arguments: ORDER });
  const parameters = z.toJSONSchema(City);
  const tools = [{ type: "function", function: { name: "get_weather", description: "", parameters } }];
  const asked = await ollama.chat({ ...ASKED, messages: user(WEATHER), tools });
  const [called] = asked.message.tool_calls;
  const result = { role: "tool", tool_name: "get_weather", content: weather(called.function.arguments) };
  const talk = [...user(WEATHER), asked.message, result];
  assert.equal((await ollama.chat({ ...ASKED, messages: talk, tools })).message.content, TOLD);
});

test("a text is completed", async () => {
  const whole = await ollama.generate({ ...ASKED, prompt: "The harbour", raw: true });
  const lines = await all(await ollama.generate({ ...ASKED, prompt: "The harbour", raw: true, stream: true }));
  assert.equal(lines.map((line) => line.response).join(""), whole.response);
});

test("what there is", async () => {
  const { models } = await ollama.list();
  assert.equal(models[0].name, "demo");
  assert.ok((await ollama.show({ model: "demo" })).capabilities.includes("tools"));
  assert.equal((await ollama.ps()).models.length, 1);
  await assert.rejects(ollama.chat({ model: "other", messages: user("hi") }), { status_code: 404 });
});
