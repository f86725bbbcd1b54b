// A real small model behind the part of OpenAI's API that a chat needs: `node server.mjs MODEL.gguf`.
//
// One thread: with more, the threads of a busy machine wait for each other. `GET /_/seen` gives the messages of all
// requests, so that a test can see what the model was shown.

import { createServer } from "node:http";
import { getLlama, LlamaChatSession, LlamaLogLevel } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 1, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: process.argv[2] });
const context = await model.createContext({ contextSize: 2048, threads: 1 });
const sequence = context.getSequence();
const seen = [];
let turn = Promise.resolve();

/** Answers the newest message. `onText` gets the pieces as they come. */
async function answer(body, signal, onText) {
  await sequence.clearHistory();
  const session = new LlamaChatSession({ contextSequence: sequence, autoDisposeSequence: false });
  const text = (message) =>
    typeof message.content === "string" ? message.content : message.content.map((part) => part.text ?? "").join("\n");
  const history = body.messages.slice(0, -1).map((message) => {
    if (message.role === "assistant") return { type: "model", response: [text(message)] };
    return { type: message.role === "user" ? "user" : "system", text: text(message) };
  });
  session.setChatHistory(history);
  const options = { maxTokens: body.max_tokens ?? 64, temperature: body.temperature ?? 0, signal, stopOnAbortSignal: true };
  const reply = await session.prompt(text(body.messages.at(-1)), { ...options, onTextChunk: onText });
  session.dispose({ disposeSequence: false });
  return reply;
}

async function chat(body, response) {
  const left = new AbortController();
  response.on("close", () => left.abort());
  const envelope = { id: `chatcmpl-${seen.length}`, created: Math.floor(Date.now() / 1000), model: body.model };
  if (!body.stream) {
    const content = await answer(body, left.signal);
    const usage = { prompt_tokens: sequence.contextTokens.length, completion_tokens: 0, total_tokens: sequence.contextTokens.length };
    const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }];
    return json(response, 200, { ...envelope, object: "chat.completion", choices, usage });
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const event = (delta, finish_reason = null) => {
    const chunk = { ...envelope, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  event({ role: "assistant", content: "" });
  await answer(body, left.signal, (content) => event({ content }));
  event({}, "stop");
  response.end("data: [DONE]\n\n");
}

function json(response, status, value) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

const server = createServer(async (request, response) => {
  if (request.url === "/_/seen") return json(response, 200, seen);
  if (request.url === "/v1/models") return json(response, 200, { object: "list", data: [{ id: "smollm2", object: "model" }] });
  if (request.url !== "/v1/chat/completions") return json(response, 404, { error: { message: "not found", type: "invalid_request_error" } });
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = JSON.parse(Buffer.concat(pieces));
  seen.push(body.messages);
  // One at a time: there is one context.
  turn = turn.then(() => chat(body, response)).catch((error) => response.destroy(error));
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
process.stdin.on("end", () => process.exit(0)).resume();
