// The official Anthropic SDK for Node notices nothing: messages, streams, tools, errors.

import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({
  baseURL: process.env.MESSAGES_URL,
  apiKey: process.env.MESSAGES_KEY,
  maxRetries: 0,
});
let number = 0;

/** A request of a user whom nobody else uses. */
function request(more) {
  number += 1;
  return { model: "mock", max_tokens: 100, metadata: { user_id: `node-${process.pid}-${number}` }, ...more };
}

const user = (content) => ({ role: "user", content });
const tool = { name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } };

test("a message is answered, and the headers tell what was done", async () => {
  const call = client.messages.create(request({ messages: [user("When does it leave?")] }));
  const { data, response, request_id } = await call.withResponse();
  assert.match(data.content[0].text, /You said: When does it leave\?$/);
  assert.match(response.headers.get("x-backstory-memory"), /^(hit|miss)/);
  assert.equal(request_id, response.headers.get("x-request-id"));
});

test("a stream is put together", async () => {
  const stream = client.messages.stream(request({ model: "mock-echo", messages: [user("one two three")] }));
  const pieces = [];
  stream.on("text", (text) => pieces.push(text));
  const final = await stream.finalMessage();
  assert.equal(pieces.join(""), "one two three");
  assert.equal(final.stop_reason, "end_turn");
});

test("a tool loop of two steps", async () => {
  const asked = request({ tools: [tool], messages: [user("What is the weather in Lisbon?")] });
  const first = await client.messages.create(asked);
  const call = first.content.find((block) => block.type === "tool_use");
  assert.equal(call.name, "weather");
  const result = { type: "tool_result", tool_use_id: call.id, content: "21 degrees" };
  asked.messages.push({ role: "assistant", content: first.content }, user([result]));
  const second = await client.messages.create(asked);
  assert.match(second.content[0].text, /The tool said: 21 degrees/);
});

test("errors have the SDK's own classes", async () => {
  await assert.rejects(client.messages.create(request({ messages: [] })), Anthropic.BadRequestError);
  const wrong = new Anthropic({ baseURL: process.env.MESSAGES_URL, apiKey: "bk-nobody", maxRetries: 0 });
  await assert.rejects(wrong.messages.create(request({ messages: [user("Hi")] })), Anthropic.AuthenticationError);
  const cut = client.messages.stream(request({ model: "mock-long-20-cut", messages: [user("Hi")] }));
  await assert.rejects(cut.finalMessage(), Anthropic.APIError);
});
