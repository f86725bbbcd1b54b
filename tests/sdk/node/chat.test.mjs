// The official Node SDK notices nothing: chat, streams, tools, JSON mode, images, choices, embeddings, errors, retries.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { connect, gone, newMarker, seen, sentence, user, waitFor } from "./support.mjs";

const tool = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather in a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

/** A client and a marker of this test alone. */
function fresh(maxRetries) {
  const marker = newMarker();
  return { marker, client: connect(`user-${marker}`, maxRetries) };
}

test("a chat is answered, and the headers tell what was done", async () => {
  const { client, marker } = fresh();
  const call = client.chat.completions.create({ model: "plain", messages: [user(`When does it leave? ${marker}`)] });
  const { data, response } = await call.withResponse();
  assert.equal(data.choices[0].message.content, sentence);
  assert.match(response.headers.get("x-backstory-memory"), /^(hit|miss)/);
  assert.ok(response.headers.get("x-backstory-exchange"));
  assert.ok(response.headers.get("x-request-id"));
});

test("a stream arrives word by word", async () => {
  const { client, marker } = fresh();
  const stream = await client.chat.completions.create({
    model: "plain",
    stream: true,
    messages: [user(`And now? ${marker}`)],
  });
  const words = [];
  for await (const chunk of stream) words.push(chunk.choices[0]?.delta.content ?? "");
  assert.equal(words.join(""), sentence);
  assert.ok(words.length > 9);
});

test("a tool loop of two steps", async () => {
  const { client, marker } = fresh();
  const messages = [user(`What is the weather in Lisbon? ${marker}`)];
  const first = await client.chat.completions.create({ model: "tools", messages, tools: [tool] });
  const { message, finish_reason } = first.choices[0];
  assert.equal(finish_reason, "tool_calls");
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Lisbon" });

  messages.push(message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "21 degrees" });
  const second = await client.chat.completions.create({ model: "tools", messages, tools: [tool] });
  assert.equal(second.choices[0].message.content, "The tool said: 21 degrees");
});

test("the SDK's own tool runner comes to its end over a stream", async () => {
  const { client, marker } = fresh();
  const run = { ...tool.function, parse: JSON.parse, function: ({ city }) => `rain in ${city}` };
  const runner = client.chat.completions.runTools({
    model: "tools",
    stream: true,
    messages: [user(`The weather once more. ${marker}`)],
    tools: [{ type: "function", function: run }],
  });
  assert.equal(await runner.finalContent(), "The tool said: rain in Lisbon");
});

test("JSON mode", async () => {
  const { client, marker } = fresh();
  const reply = await client.chat.completions.create({
    model: "json",
    messages: [user(`A trip as JSON. ${marker}`)],
    response_format: { type: "json_object" },
  });
  assert.deepEqual(JSON.parse(reply.choices[0].message.content), { city: "Lisbon", days: 3 });
  assert.deepEqual((await seen(marker))[0].body.response_format, { type: "json_object" });
});

test("images reach upstream", async () => {
  const { client, marker } = fresh();
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,bm90IGEgcGljdHVyZQ==", detail: "low" } };
  const parts = [{ type: "text", text: `What is on it? ${marker}` }, image];
  const reply = await client.chat.completions.create({ model: "vision", messages: [user(parts)] });
  assert.match(reply.choices[0].message.content, /^1 images/);
  const sent = (await seen(marker))[0].body.messages.at(-1).content;
  assert.deepEqual(sent.at(-1), image);
});

test("two choices", async () => {
  const { client, marker } = fresh();
  const reply = await client.chat.completions.create({ model: "plain", n: 2, messages: [user(`Twice. ${marker}`)] });
  assert.deepEqual(reply.choices.map((choice) => choice.index), [0, 1]);
});

test("embeddings and models", async () => {
  const { client } = fresh();
  const reply = await client.embeddings.create({ model: "embed", input: ["one", "two"] });
  assert.deepEqual(reply.data.map((item) => [...item.embedding]), [[0.25, -0.5, 1], [0.25, -0.5, 1]]);
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.ok(names.includes("plain"));
});

test("errors keep their class and their code", async () => {
  const { client, marker } = fresh();
  const ask = (code) => client.chat.completions.create({ model: `error-${code}`, messages: [user(`Hello. ${marker}`)] });
  await assert.rejects(ask(400), OpenAI.BadRequestError);
  await assert.rejects(ask(401), OpenAI.AuthenticationError);
  await assert.rejects(ask(404), (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
  await assert.rejects(ask(429), OpenAI.RateLimitError);
  await assert.rejects(ask(500), OpenAI.InternalServerError);
});

test("the SDK retries and gets its answer", async () => {
  const { client, marker } = fresh(2);
  const reply = await client.chat.completions.create({ model: "flaky-429", messages: [user(`Again. ${marker}`)] });
  assert.equal(reply.choices[0].message.content, sentence);
  assert.ok((await seen(marker)).length >= 2);
});

test("a cut stream is an error and not an end", async () => {
  const { client, marker } = fresh();
  const stream = await client.chat.completions.create({
    model: "cut",
    stream: true,
    messages: [user(`Go on. ${marker}`)],
  });
  let text = "";
  await assert.rejects(async () => {
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  });
  assert.equal(text, "The train to");
});

test("a client that leaves takes upstream along", async () => {
  const { client, marker } = fresh();
  const stream = await client.chat.completions.create({
    model: "stall",
    stream: true,
    messages: [user(`Wait. ${marker}`)],
  });
  for await (const chunk of stream) {
    assert.equal(chunk.choices[0].delta.role, "assistant");
    break;
  }
  stream.controller.abort();
  await waitFor(() => gone(marker), "upstream's client is gone", 5);
});
