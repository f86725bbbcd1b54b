"""The Responses API of the scripted upstream: the same scripts as in `upstream.py`, in the form of `/v1/responses`.

An answer's id holds the marker of its request, so that two requests with one marker get the same bytes. Answers are kept unless the
request says `"store": false`; a later request may name one as `previous_response_id`, any other name is an error.
"""

import collections
import json
import re
import threading

MARKER = re.compile(r"marker[0-9a-f]{12}")

lock = threading.Lock()
kept = collections.deque(maxlen=1000)


def unknown_previous(body):
    """The error for a `previous_response_id` that was never given out, or None."""
    previous = body.get("previous_response_id")
    with lock:
        if previous is None or previous in kept:
            return None
    message = f"Previous response with id '{previous}' not found."
    return {"message": message, "type": "invalid_request_error", "param": "previous_response_id", "code": "previous_response_not_found"}


def newest(body):
    """The newest item of the input; a text is a message of the user."""
    given = body["input"]
    return {"type": "message", "role": "user", "content": given} if isinstance(given, str) else given[-1]


def calls_tool(body, script):
    return script == "tools" and newest(body).get("role") == "user"


def answer(body, sentence):
    item = newest(body)
    return f"The tool said: {item['output']}" if item.get("type") == "function_call_output" else sentence


def output(body, script, sentence):
    """The one item that is answered: a function call or a message."""
    if calls_tool(body, script):
        name = body["tools"][0]["name"]
        call = {"call_id": "call_1", "name": name, "arguments": '{"city": "Lisbon"}'}
        return {"type": "function_call", "id": "fc_1", "status": "completed", **call}
    content = [{"type": "output_text", "text": answer(body, sentence), "annotations": [], "logprobs": []}]
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}


def envelope(body, text, status, items):
    """The object `response`, as it is at this moment."""
    found = MARKER.search(text)
    done = status == "completed"
    usage = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 29,
    }
    return {
        "id": f"resp_{found.group() if found else 'tests'}",
        "object": "response",
        "created_at": 1764450000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "model": body["model"],
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store", True),
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "usage": usage if done else None,
    }


def reply(body, script, text, sentence):
    """The whole answer, which is kept."""
    whole = envelope(body, text, "completed", [output(body, script, sentence)])
    if whole["store"]:
        with lock:
            kept.append(whole["id"])
    return whole


def events(body, script, text, sentence):
    """The events of a stream, each as the bytes that are sent."""
    whole = reply(body, script, text, sentence)
    for number, (kind, fields) in enumerate(steps(body, text, whole)):
        event = {"type": kind, "sequence_number": number, **fields}
        yield f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()


def steps(body, text, whole):
    [item] = whole["output"]
    begun = envelope(body, text, "in_progress", [])
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    place = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "function_call":
        yield "response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "arguments": ""}}
        for piece in (item["arguments"][:5], item["arguments"][5:]):
            yield "response.function_call_arguments.delta", {**place, "delta": piece}
        yield "response.function_call_arguments.done", {**place, "name": item["name"], "arguments": item["arguments"]}
    else:
        [part] = item["content"]
        place["content_index"] = 0
        yield "response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}}
        yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
        for position, word in enumerate(part["text"].split(" ")):
            yield "response.output_text.delta", {**place, "delta": word if position == 0 else f" {word}", "logprobs": []}
        yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**place, "part": part}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": whole}
