// The Responses API through the official Node SDK: it notices nothing, and memory works as in chat completions.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { connect, facts, gone, newMarker, seen, sentence, user, waitFor } from "./support.mjs";

const tool = {
  type: "function",
  name: "weather",
  description: "The weather in a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
  strict: true,
};

/** A client and a marker of this test alone. */
function fresh() {
  const marker = newMarker();
  return { marker, name: `user-${marker}`, client: connect(`user-${marker}`) };
}

const known = (name, what) => waitFor(async () => JSON.stringify(await facts(name)).includes(what), `${what} is learned`);

/** What upstream was sent in the newest request with this marker. */
async function shown(marker) {
  const { instructions, input } = (await seen(marker)).at(-1).body;
  return JSON.stringify([instructions, input]);
}

test("a response is created, and the headers tell what was done", async () => {
  const { client, marker } = fresh();
  const call = client.responses.create({ model: "plain", input: `When does it leave? ${marker}` });
  const { data, response } = await call.withResponse();
  assert.equal(data.output_text, sentence);
  assert.match(response.headers.get("x-backstory-memory"), /^(hit|miss)/);
  for (const name of ["x-backstory-exchange", "x-backstory-target", "x-backstory-context", "x-request-id"])
    assert.ok(response.headers.get(name), name);
});

test("a stream arrives event by event", async () => {
  const { client, marker } = fresh();
  const events = [];
  const stream = await client.responses.create({ model: "plain", input: `And now? ${marker}`, stream: true });
  for await (const event of stream) events.push(event);
  assert.equal(events[0].type, "response.created");
  assert.equal(events.at(-1).type, "response.completed");
  const words = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta);
  assert.equal(words.join(""), sentence);
  assert.ok(words.length > 8);
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
});

test("the SDK's stream helper puts a response together", async () => {
  const { client, marker } = fresh();
  const final = await client.responses.stream({ model: "plain", input: `Once more. ${marker}` }).finalResponse();
  assert.equal(final.output_text, sentence);
});

test("a tool loop of two steps", async () => {
  const { client, marker } = fresh();
  const input = [user(`What is the weather in Lisbon? ${marker}`)];
  const first = await client.responses.create({ model: "tools", input, tools: [tool] });
  const [call] = first.output;
  assert.deepEqual(JSON.parse(call.arguments), { city: "Lisbon" });
  input.push(...first.output, { type: "function_call_output", call_id: call.call_id, output: "21 degrees" });
  const second = await client.responses.create({ model: "tools", input, tools: [tool] });
  assert.equal(second.output_text, "The tool said: 21 degrees");
});

test("a tool loop over previous_response_id, streamed", async () => {
  const { client, marker } = fresh();
  const ask = (body) => client.responses.stream({ model: "tools", tools: [tool], ...body }).finalResponse();
  const first = await ask({ input: `The weather once more. ${marker}` });
  const result = { type: "function_call_output", call_id: first.output[0].call_id, output: `rain ${marker}` };
  const second = await ask({ previous_response_id: first.id, input: [result] });
  assert.equal(second.output_text, `The tool said: rain ${marker}`);
  assert.equal((await seen(marker)).at(-1).body.previous_response_id, first.id);
});

test("the next conversation remembers, and no other user does", async () => {
  const { client, marker, name } = fresh();
  const stream = await client.responses.create({ model: "plain", input: "I'm allergic to peanuts.", stream: true });
  for await (const event of stream) assert.ok(event.type);
  await known(name, "peanut");
  await client.responses.create({ model: "plain", input: `Which snacks may I eat? ${marker}a` });
  assert.match(await shown(`${marker}a`), /peanut/);
  await connect(`bob-${marker}`).responses.create({ model: "plain", input: `Which snacks may I eat? ${marker}b` });
  assert.doesNotMatch(await shown(`${marker}b`), /peanut/);
});

test("memory is shown where the history is upstream's", async () => {
  const { client, marker, name } = fresh();
  await client.responses.create({ model: "plain", input: "I'm allergic to peanuts." });
  await known(name, "peanut");
  const first = await client.responses.create({ model: "plain", input: `Good morning. ${marker}a` });
  const body = { model: "plain", input: `Which snacks may I eat? ${marker}b`, previous_response_id: first.id };
  const { response } = await client.responses.create(body).withResponse();
  assert.match(response.headers.get("x-backstory-memory"), /^hit/);
  assert.match(await shown(`${marker}b`), /peanut/);
});

test("errors keep their class and their code", async () => {
  const { client, marker } = fresh();
  const ask = (body) => client.responses.create({ model: "plain", input: `Hello. ${marker}`, ...body });
  await assert.rejects(ask({ model: "error-400" }), OpenAI.BadRequestError);
  await assert.rejects(ask({ model: "error-429" }), OpenAI.RateLimitError);
  await assert.rejects(ask({ model: "error-500", stream: true }), OpenAI.InternalServerError);
  const unknown = ask({ previous_response_id: `resp_unknown${marker}` });
  await assert.rejects(unknown, (error) => error.code === "previous_response_not_found");
});

test("a client that leaves takes upstream along", async () => {
  const { client, marker } = fresh();
  const stream = await client.responses.create({ model: "stall", input: `Wait. ${marker}`, stream: true });
  for await (const event of stream) if (event.type === "response.output_text.delta") break;
  stream.controller.abort();
  await waitFor(() => gone(marker), "upstream's client is gone", 5);
});
