import assert from "node:assert/strict";
import { test } from "node:test";

import { BadRequestError, NotFoundError } from "openai";
import { zodResponseFormat } from "openai/helpers/zod";

import { ASKED, client, EXTRACT, Order, user } from "./asks.js";

const completions = client.chat.completions;
const TYPE = "invalid_request_error";

// What the SDK makes of a refusal.
const refused = async (made, kind) => {
  const error = await made.then(() => assert.fail("was answered"), (e) => e);
  assert.ok(error instanceof kind, `${error}`);
  assert.equal(error.type, TYPE);
  assert.ok(error.requestID);
  return error;
};

test("a field that is wrong is named, before a stream, too", async () => {
  for (const stream of [false, true]) {
    const asked = { ...ASKED, messages: user("Hello."), temperature: -1, stream };
    const error = await refused(completions.create(asked), BadRequestError);
    assert.deepEqual([error.status, error.param], [400, "temperature"]);
    assert.match(error.message, /^400 temperature: /);
  }
  const error = await refused(client.responses.create({ ...ASKED, input: "Hello.", top_p: 2 }), BadRequestError);
  assert.equal(error.param, "top_p");
});

test("a schema that cannot be enforced is named with its place", async () => {
  const schema = { type: "object", properties: { day: { type: "text" } } };
  const response_format = { type: "json_schema", json_schema: { name: "o", schema } };
  const error = await refused(completions.create({ ...ASKED, messages: user("Hello."), response_format }), BadRequestError);
  assert.equal(error.param, "response_format");
  assert.match(error.message, /\/properties\/day/);
});

test("a prompt that is too long has its code", async () => {
  const error = await refused(completions.create({ ...ASKED, messages: user("word ".repeat(5000)) }), BadRequestError);
  assert.equal(error.code, "context_length_exceeded");
});

test("what is not there is not found", async () => {
  const model = await refused(completions.create({ model: "another", messages: user("Hello.") }), NotFoundError);
  assert.deepEqual([model.param, model.code], ["model", "model_not_found"]);
  await refused(client.models.retrieve("another"), NotFoundError);
  await refused(client.embeddings.create({ model: "demo", input: "Hello." }), NotFoundError);
});

test("an answer has room to be whole, or is refused", async () => {
  const asked = { ...ASKED, messages: user(EXTRACT), response_format: zodResponseFormat(Order, "order"), max_tokens: 4 };
  const error = await refused(completions.parse(asked), BadRequestError);
  assert.equal(error.param, "max_tokens");
  const max_tokens = Number(/raise it to (\d+) or more/.exec(error.message)[1]);
  const parsed = await completions.parse({ ...asked, max_tokens });
  assert.ok(parsed.choices[0].message.parsed);
  const whole = await completions.stream({ ...asked, max_tokens }).finalChatCompletion();
  assert.ok(whole.choices[0].message.parsed);
});
