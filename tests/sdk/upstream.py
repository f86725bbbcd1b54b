"""A scripted upstream in OpenAI's form, for the SDK tests. Standard library only.

The model's name is the script:

    plain        a fixed sentence, streamed word by word where a stream is asked for
    json         a JSON object, as `response_format` asks for it
    tools        calls the first tool that is offered, then tells what the tool's result was
    vision       tells how many images and texts the newest message holds
    flaky-CODE   answers CODE for the first try of each marker, then as `plain`
    error-CODE   always answers CODE
    stall        streams three words, then is silent until the client is gone
    cut          streams three words, then closes the socket in mid answer

`/v1/chat/completions`, `/v1/embeddings` and `/v1/responses` (`responses.py`) are answered. Every request is kept, so that a test can see what upstream was sent: `GET /_/seen?marker=TEXT` gives the requests whose
body holds TEXT, and `GET /_/gone?marker=TEXT` tells whether the client of a stalled one left.
"""

import base64
import collections
import json
import select
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import responses

SENTENCE = "The train to the coast leaves twice an hour"
ERRORS = {
    400: ("invalid_request_error", "invalid_value", "temperature must be below 2"),
    401: ("invalid_request_error", "invalid_api_key", "incorrect key provided"),
    403: ("invalid_request_error", "forbidden", "this project may not use the model"),
    404: ("invalid_request_error", "model_not_found", "the model does not exist"),
    429: ("rate_limit_error", "rate_limit_exceeded", "slow down"),
    500: ("server_error", None, "the server had an error"),
}

lock = threading.Lock()
seen = collections.deque(maxlen=4000)
gone = collections.deque(maxlen=1000)
tried = collections.Counter()


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    # --- control and lists

    def do_GET(self):
        url = urlparse(self.path)
        marker = parse_qs(url.query).get("marker", [""])[0]
        if url.path == "/_/seen":
            with lock:
                found = [request for request in seen if marker in request["text"]]
            self.send_json(200, [{key: request[key] for key in ("path", "headers", "body")} for request in found])
        elif url.path == "/_/gone":
            with lock:
                self.send_json(200, any(marker in text for text in gone))
        elif url.path == "/v1/models":
            models = [{"id": name, "object": "model", "created": 1764450000, "owned_by": "tests"} for name in ("plain", "json")]
            self.send_json(200, {"object": "list", "data": models})
        else:
            self.send_error_body(404)

    # --- chat and embeddings

    def do_POST(self):
        text = self.read_body().decode()
        body = json.loads(text)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with lock:
            seen.append({"path": self.path, "headers": headers, "body": body, "text": text})
        if self.path == "/v1/embeddings":
            return self.embeddings(body)
        if self.path not in ("/v1/chat/completions", "/v1/responses"):
            return self.send_error_body(404)
        script, _, code = body["model"].partition("-")
        if script == "error":
            return self.send_error_body(int(code))
        if script == "flaky" and self.first_try(text):
            return self.send_error_body(int(code))
        if self.path == "/v1/responses":
            return self.respond(body, script, text)
        if body.get("stream"):
            return self.stream(body, script, text)
        choices = [
            {"index": index, "message": self.message(body, script), "logprobs": None, "finish_reason": self.reason(body, script)}
            for index in range(body.get("n") or 1)
        ]
        self.send_json(200, {**self.envelope(body, "chat.completion"), "choices": choices, "usage": self.usage()})

    def first_try(self, text):
        with lock:
            tried[text] += 1
            return tried[text] == 1

    def message(self, body, script):
        message = {"role": "assistant", "content": self.answer(body, script), "refusal": None}
        if self.calls_tool(body, script):
            message.update(content=None, tool_calls=[self.tool_call(body)])
        return message

    def answer(self, body, script):
        newest = body["messages"][-1]
        if script == "json":
            return '{"city": "Lisbon", "days": 3}'
        if script == "tools":
            return f"The tool said: {newest['content']}"
        if script == "vision":
            kinds = [part["type"] for part in newest["content"]] if isinstance(newest["content"], list) else ["text"]
            return f"{kinds.count('image_url')} images and {kinds.count('text')} texts"
        return SENTENCE

    @staticmethod
    def calls_tool(body, script):
        return script == "tools" and body["messages"][-1]["role"] == "user"

    def reason(self, body, script):
        return "tool_calls" if self.calls_tool(body, script) else "stop"

    @staticmethod
    def tool_call(body):
        name = body["tools"][0]["function"]["name"]
        return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"city": "Lisbon"}'}}

    @staticmethod
    def envelope(body, kind):
        return {"id": "chatcmpl-tests", "object": kind, "created": 1764450000, "model": body["model"]}

    @staticmethod
    def usage():
        return {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}

    def embeddings(self, body):
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        vector = [0.25, -0.5, 1.0]
        value = vector
        if body.get("encoding_format") == "base64":
            value = base64.b64encode(struct.pack("<3f", *vector)).decode()
        data = [{"object": "embedding", "index": index, "embedding": value} for index, _ in enumerate(texts)]
        usage = {"prompt_tokens": 4, "total_tokens": 4}
        self.send_json(200, {"object": "list", "data": data, "model": body["model"], "usage": usage})

    # --- responses

    def respond(self, body, script, text):
        if error := responses.unknown_previous(body):
            return self.send_json(400, {"error": error})
        if not body.get("stream"):
            return self.send_json(200, responses.reply(body, script, text, SENTENCE))
        self.begin_stream()
        words = 0
        for event in responses.events(body, script, text, SENTENCE):
            if script in ("stall", "cut") and b"output_text.delta" in event:
                words += 1
                if words > 3:
                    return self.break_off(script, text)
            self.chunk(event)
        self.chunk(b"")

    # --- streams

    def begin_stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def stream(self, body, script, text):
        self.begin_stream()
        choices = range(body.get("n") or 1)
        for index in choices:
            self.event(body, index, {"role": "assistant", "content": ""})
        if self.calls_tool(body, script):
            call = self.tool_call(body)
            arguments = call["function"].pop("arguments")
            self.event(body, 0, {"tool_calls": [{"index": 0, **call, "function": {**call["function"], "arguments": ""}}]})
            for piece in (arguments[:5], arguments[5:]):
                self.event(body, 0, {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        else:
            for position, word in enumerate(self.answer(body, script).split(" ")):
                if position == 3 and script in ("stall", "cut"):
                    return self.break_off(script, text)
                for index in choices:
                    self.event(body, index, {"content": word if position == 0 else f" {word}"})
        for index in choices:
            self.event(body, index, {}, self.reason(body, script))
        if (body.get("stream_options") or {}).get("include_usage"):
            self.write_event({**self.envelope(body, "chat.completion.chunk"), "choices": [], "usage": self.usage()})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, body, index, delta, reason=None):
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        self.write_event({**self.envelope(body, "chat.completion.chunk"), "choices": [choice]})

    def break_off(self, script, text):
        self.close_connection = True
        if script == "cut":
            return
        # Readable and empty means that the client has closed. The wait is bounded, should it never do so.
        select.select([self.connection], [], [], 30)
        with lock:
            gone.append(text)

    def write_event(self, event):
        self.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    # --- plain HTTP

    def read_body(self):
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def send_error_body(self, code):
        kind, error_code, message = ERRORS.get(code, ("server_error", None, "no such script"))
        error = {"message": message, "type": kind, "param": None, "code": error_code}
        self.send_json(code, {"error": error}, {"x-should-retry": "true"} if code == 429 else {})

    def send_json(self, code, value, headers=None):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, header in (headers or {}).items():
            self.send_header(name, header)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        """A client that left is part of the tests."""


def main():
    server = Server(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    # The parent holds the other end: when it is gone, so are we.
    sys.stdin.read()
    time.sleep(0)


if __name__ == "__main__":
    main()
