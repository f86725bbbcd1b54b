// The official Node SDK through a virtual key: chat, a stream, and a key that nobody knows.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { newMarker, seen, sentence, user } from "./support.mjs";

const virtualKey = "bk-tests-0123456789abcdef";

function fresh(apiKey = virtualKey) {
  const marker = newMarker();
  const defaultHeaders = { "x-backstory-user": `user-${marker}` };
  const baseURL = `${process.env.VIRTUAL_URL}/v1`;
  return { marker, client: new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 20_000, defaultHeaders }) };
}

test("a virtual key never goes upstream", async () => {
  const { client, marker } = fresh();
  const reply = await client.chat.completions.create({ model: "plain", messages: [user(`Hello ${marker}`)] });
  assert.equal(reply.choices[0].message.content, sentence);
  const [request] = await seen(marker);
  assert.equal(request.headers.authorization, "Bearer sk-provider-0123456789abcdef");
  assert.ok(!JSON.stringify(request).includes(virtualKey));
});

test("a stream through a virtual key", async () => {
  const { client, marker } = fresh();
  const messages = [user(`And now? ${marker}`)];
  const stream = await client.chat.completions.create({ model: "priced", stream: true, messages });
  const words = [];
  for await (const chunk of stream) words.push(chunk.choices[0]?.delta.content ?? "");
  assert.equal(words.join(""), sentence);
});

test("a key that nobody knows is an authentication error", async () => {
  const { client } = fresh("bk-somebody-elses");
  await assert.rejects(client.models.list(), OpenAI.AuthenticationError);
});
