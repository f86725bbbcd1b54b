"""The official Python SDK notices nothing: chat, streams, tools, JSON mode, images, choices, embeddings, models."""

import base64
import json

from support import SENTENCE, text_of, user

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_a_chat_is_answered(client, marker):
    reply = client.chat.completions.create(model="plain", messages=[user(f"When does the train leave? {marker}")])
    assert reply.choices[0].message.content == SENTENCE
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens == 29


def test_a_stream_arrives_word_by_word(client, marker):
    chunks = list(client.chat.completions.create(model="plain", messages=[user(f"And now? {marker}")], stream=True))
    assert text_of(chunks) == SENTENCE
    assert len(chunks) > 9
    assert chunks[-1].choices[0].finish_reason == "stop"
    # Usage that we ask for, for our own books, is not the client's.
    assert all(chunk.usage is None for chunk in chunks)


def test_usage_comes_in_a_stream_when_the_client_asks_for_it(client, marker):
    chunks = list(
        client.chat.completions.create(
            model="plain", messages=[user(f"How many? {marker}")], stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 29


def test_a_tool_loop_of_two_steps(client, upstream, marker):
    messages = [user(f"What is the weather in Lisbon? {marker}")]
    first = client.chat.completions.create(model="tools", messages=messages, tools=[TOOL]).choices[0]
    assert first.finish_reason == "tool_calls"
    call = first.message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Lisbon"}

    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}]
    second = client.chat.completions.create(model="tools", messages=messages, tools=[TOOL]).choices[0]
    assert second.message.content == "The tool said: 21 degrees"
    sent = upstream.seen(marker)[-1]["body"]["messages"]
    assert [message["role"] for message in sent[-3:]] == ["user", "assistant", "tool"]


def test_a_streamed_tool_call_is_put_together(client, marker):
    messages = [user(f"The weather once more. {marker}")]
    with client.chat.completions.stream(model="tools", messages=messages, tools=[TOOL]) as stream:
        choice = stream.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls"
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"city": "Lisbon"}


def test_json_mode(client, upstream, marker):
    messages = [user(f"A trip as JSON. {marker}")]
    reply = client.chat.completions.create(model="json", messages=messages, response_format={"type": "json_object"})
    assert json.loads(reply.choices[0].message.content) == {"city": "Lisbon", "days": 3}
    assert upstream.seen(marker)[0]["body"]["response_format"] == {"type": "json_object"}


def test_images_reach_upstream(client, upstream, marker):
    pixel = base64.b64encode(b"not really a picture").decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}", "detail": "low"}}
    parts = [{"type": "text", "text": f"What is on it? {marker}"}, image]
    reply = client.chat.completions.create(model="vision", messages=[user(parts)])
    assert reply.choices[0].message.content.startswith("1 images")
    assert image in upstream.seen(marker)[0]["body"]["messages"][-1]["content"]


def test_two_choices(client, marker):
    reply = client.chat.completions.create(model="plain", messages=[user(f"Twice, please. {marker}")], n=2)
    assert [choice.index for choice in reply.choices] == [0, 1]
    chunks = list(client.chat.completions.create(model="plain", messages=[user(f"Again. {marker}")], n=2, stream=True))
    for index in (0, 1):
        words = [c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == index]
        assert "".join(words) == SENTENCE


def test_embeddings(client):
    reply = client.embeddings.create(model="embed", input=["one", "two"])
    assert [item.embedding for item in reply.data] == [[0.25, -0.5, 1.0]] * 2


def test_models_are_listed(client):
    assert "plain" in {model.id for model in client.models.list()}


def test_unknown_parameters_pass(client, upstream, marker):
    extra = {"reasoning_budget": 7, "nested": {"deep": [1, None]}}
    client.chat.completions.create(model="plain", messages=[user(f"More. {marker}")], extra_body=extra)
    sent = upstream.seen(marker)[0]["body"]
    assert {name: sent[name] for name in extra} == extra


def test_headers_tell_what_was_done(client, marker):
    raw = client.chat.completions.with_raw_response.create(model="plain", messages=[user(f"Headers? {marker}")])
    assert raw.parse().choices[0].message.content == SENTENCE
    assert raw.headers["x-request-id"]
    assert raw.headers["x-backstory-exchange"]
    assert raw.headers["x-backstory-memory"].split(";")[0] in ("hit", "miss")
    assert "attempts=1" in raw.headers["x-backstory-target"]
    counts = dict(part.strip().split("=") for part in raw.headers["x-backstory-context"].split(";"))
    assert int(counts["counted"]) > 0
