// Limits as the SDK meets them: its class of error, its own retries, and when it does not try again.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { newMarker, seen, sentence, user } from "./support.mjs";

const connect = (key, maxRetries = 0) =>
  new OpenAI({ baseURL: `${process.env.LIMITED_URL}/v1`, apiKey: key, maxRetries, timeout: 20_000 });

test("a refusal is a rate limit error, and the SDK comes again when it is told to", async () => {
  const marker = newMarker();
  const key = "bk-node-one-at-a-time";
  const ask = (client, model, stream) =>
    client.chat.completions.create({ model, stream, messages: [user(`One at a time. ${marker}`)] });
  const open = await ask(connect(key), "stall", true);
  for await (const chunk of open) {
    assert.equal(chunk.choices[0].delta.role, "assistant");
    await assert.rejects(ask(connect(key), "plain", false), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.deepEqual([error.type, error.code], ["requests", "rate_limit_exceeded"]);
      return error.headers.get("retry-after") === "1";
    });
    break;
  }
  const begun = performance.now();
  setTimeout(() => open.controller.abort(), 100);
  const second = await ask(connect(key, 2), "plain", false);
  assert.equal(second.choices[0].message.content, sentence);
  assert.ok(performance.now() - begun < 15_000);
});

test("the SDK does not try again what a day's budget refuses", async () => {
  const marker = newMarker();
  const client = connect("bk-node-small-budget", 5);
  const ask = (text, max_tokens) =>
    client.chat.completions.create({ model: "plain", max_tokens, messages: [user(text)] }).withResponse();
  const { response } = await ask(`A first one. ${marker}`, 50);
  assert.ok(Number(response.headers.get("x-ratelimit-remaining-tokens")) < 500);
  const begun = performance.now();
  await assert.rejects(ask(`A long one. ${marker}long`, 490), (error) => {
    assert.ok(error instanceof OpenAI.RateLimitError);
    return error.code === "insufficient_quota";
  });
  assert.ok(performance.now() - begun < 2_000, "five tries would take longer");
  assert.deepEqual(await seen(`${marker}long`), []);
});
