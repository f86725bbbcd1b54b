// What a user said in one conversation is shown to the model in the next, to that user alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, facts, newMarker, seen, user, waitFor } from "./support.mjs";

const ask = (client, text) => client.chat.completions.create({ model: "plain", messages: [user(text)] });

test("the next conversation remembers, and no other user does", async () => {
  const marker = newMarker();
  const [alice, bob] = [`alice-${marker}`, `bob-${marker}`];
  const stream = await connect(alice).chat.completions.create({
    model: "plain",
    stream: true,
    messages: [user("I'm allergic to peanuts.")],
  });
  for await (const chunk of stream) assert.ok(chunk.id);
  await waitFor(async () => JSON.stringify(await facts(alice)).includes("peanut"), "the allergy is learned");

  await ask(connect(alice), `Which snacks may I eat on the train? ${marker}a`);
  assert.match(JSON.stringify(await seen(`${marker}a`)), /peanut/);
  await ask(connect(bob), `Which snacks may I eat on the train? ${marker}b`);
  assert.doesNotMatch(JSON.stringify(await seen(`${marker}b`)), /peanut/);
  assert.deepEqual(await facts(bob), []);
});
