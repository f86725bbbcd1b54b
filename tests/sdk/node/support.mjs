// What the tests share: the addresses, a client of a user of its own, and what upstream was sent.

import { randomUUID } from "node:crypto";
import OpenAI from "openai";

export const url = process.env.BACKSTORY_URL;
export const upstreamUrl = process.env.UPSTREAM_URL;
export const sentence = "The train to the coast leaves twice an hour";

/** A word that stands in one test's requests only. */
export const newMarker = () => `marker${randomUUID().replaceAll("-", "").slice(0, 12)}`;

export const user = (content) => ({ role: "user", content });

/** An SDK client. Retries are off unless asked for, so that a test sees what really happens. */
export function connect(name, maxRetries = 0) {
  return new OpenAI({
    baseURL: `${url}/v1`,
    apiKey: "sk-tests",
    maxRetries,
    timeout: 20_000,
    defaultHeaders: { "x-backstory-user": name },
  });
}

/** The requests with this marker that upstream got. */
export async function seen(marker) {
  return (await fetch(`${upstreamUrl}/_/seen?marker=${marker}`)).json();
}

/** Whether the client of a stalled request with this marker has left upstream. */
export async function gone(marker) {
  return (await fetch(`${upstreamUrl}/_/gone?marker=${marker}`)).json();
}

/** A user's facts. */
export async function facts(name) {
  const headers = { authorization: "Bearer sk-tests", "x-backstory-user": name };
  const reply = await fetch(`${url}/memory/v1/facts`, { headers });
  if (reply.status !== 200) throw new Error(`facts answered ${reply.status}`);
  return (await reply.json()).data;
}

/** Polls until the condition holds: a bounded wait for what happens after the reply. */
export async function waitFor(condition, what, seconds = 15) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not seen within ${seconds} s: ${what}`);
}
