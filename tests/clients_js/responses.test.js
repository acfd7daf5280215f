import assert from "node:assert/strict";
import { test } from "node:test";

import { NotFoundError } from "openai";
import { ResponsesToolRunner, runnerFunction } from "openai/helpers/responses-tool-runner";
import { zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";

import { all, ASKED, City, client, EXTRACT, Order, ORDER, TOLD, UPDATE, WEATHER, weather } from "./asks.js";

const { responses } = client;

test("a response, whole and streamed", async () => {
  const whole = await responses.create({ ...ASKED, input: EXTRACT });
  assert.equal(whole.status, "completed");
  assert.ok(Object.values(JSON.parse(whole.output_text)).includes(ORDER.quantity));
  const stream = responses.stream({ ...ASKED, input: EXTRACT });
  const types = new Set();
  let grown = "";
  for await (const event of stream) {
    types.add(event.type);
    if (event.type === "response.output_text.delta") grown += event.delta;
  }
  assert.equal(grown, whole.output_text);
  assert.equal((await stream.finalResponse()).output_text, grown);
  for (const type of ["response.created", "response.output_item.done", "response.completed"]) assert.ok(types.has(type));
});

test("a response is parsed by Zod", async () => {
  const asked = { ...ASKED, input: EXTRACT, text: { format: zodTextFormat(Order, "order") } };
  assert.deepEqual((await responses.parse(asked)).output_parsed, ORDER);
  assert.deepEqual((await responses.stream(asked).finalResponse()).output_parsed, ORDER);
});

test("functions of Zod are parsed", async () => {
  const tools = [zodResponsesFunction({ name: "update_order", parameters: Order })];
  const asked = { ...ASKED, input: UPDATE, tools, max_output_tokens: 200 };
  for (const made of [await responses.parse(asked), await responses.stream(asked).finalResponse()]) {
    assert.deepEqual(made.output.map((item) => [item.type, item.parsed_arguments]), [["function_call", ORDER]]);
  }
});

for (const stream of [false, true]) {
  test(`the runner of functions, stream: ${stream}`, async () => {
    const tool = zodResponsesFunction({ name: "get_weather", parameters: City, function: weather });
    const runner = new ResponsesToolRunner({ functions: [runnerFunction(tool)] });
    const asked = { ...ASKED, input: WEATHER, max_output_tokens: 200 };
    const final = await runner.run(client, asked, { maxSteps: 3, stream });
    assert.equal(final.output_text, TOLD);
  });
}

test("what is kept is gone on from, listed and forgotten", async () => {
  const first = await responses.create({ ...ASKED, input: EXTRACT });
  assert.equal((await responses.retrieve(first.id)).output_text, first.output_text);
  const again = await responses.create({ ...ASKED, input: EXTRACT, previous_response_id: first.id });
  assert.equal(again.previous_response_id, first.id);
  assert.ok(again.usage.input_tokens > first.usage.input_tokens);
  const items = await all(responses.inputItems.list(first.id));
  assert.deepEqual(items.map((item) => item.content[0].text), [EXTRACT]);
  await responses.delete(first.id);
  await assert.rejects(responses.retrieve(first.id), NotFoundError);
});

test("a response in the background is cancelled", async () => {
  const asked = { model: "demo", input: "Hello.", max_output_tokens: 3500, ignore_eos: true, background: true };
  const { id, status } = await responses.create(asked);
  assert.equal(status, "queued");
  assert.equal((await responses.cancel(id)).status, "cancelled");
});
