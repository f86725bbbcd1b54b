"""The official Anthropic SDK notices nothing but better answers: messages, streams, tools, cache control, errors."""

import anthropic
import pytest

TOOL = {
    "name": "weather",
    "description": "The weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def base(marker, **more):
    return {"model": "mock", "max_tokens": 100, "metadata": {"user_id": f"user-{marker}"}, **more}


def user(text):
    return {"role": "user", "content": text}


def test_a_message_is_answered(client, marker):
    reply = client.messages.create(**base(marker), messages=[user("When does the train leave?")])
    assert reply.type == "message" and reply.stop_reason == "end_turn"
    assert reply.content[0].text.endswith("You said: When does the train leave?")
    assert reply.usage.input_tokens > 0 and reply.usage.output_tokens > 0


def test_a_stream_is_put_together(client, marker):
    with client.messages.stream(**base(marker, model="mock-echo"), messages=[user("one two three")]) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(pieces) == "one two three" and len(pieces) == 3
    assert final.stop_reason == "end_turn" and final.content[0].text == "one two three"
    assert final.usage.output_tokens > 0


def test_told_in_one_conversation_shown_in_the_next(client, marker, learned):
    client.messages.create(**base(marker), messages=[user("I am allergic to peanuts.")])
    learned(f"user-{marker}", 1)
    with client.messages.stream(**base(marker), messages=[user("What should I not cook?")]) as stream:
        assert "peanuts" in stream.get_final_message().content[0].text
    raw = client.messages.with_raw_response.create(**base(marker), messages=[user("And tomorrow?")])
    assert raw.headers["x-backstory-memory"].startswith("hit; facts=1")
    assert raw.headers["request-id"] == raw.headers["x-request-id"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop_of_two_steps(client, marker, streamed):
    def ask(messages):
        request = {**base(marker), "messages": messages, "tools": [TOOL]}
        if not streamed:
            return client.messages.create(**request)
        with client.messages.stream(**request) as stream:
            return stream.get_final_message()

    messages = [user("What is the weather in Lisbon?")]
    first = ask(messages)
    assert first.stop_reason == "tool_use"
    call = next(block for block in first.content if block.type == "tool_use")
    assert (call.name, call.input) == ("weather", {})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "21 degrees"}
    second = ask(messages + [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}])
    assert second.stop_reason == "end_turn"
    assert "The tool said: 21 degrees" in second.content[0].text


def test_breakpoints_of_the_cache_are_taken(client, marker):
    ephemeral = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": "Be kind. " * 50, **ephemeral}]
    content = [{"type": "text", "text": "Hello there", **ephemeral}]
    reply = client.messages.create(**base(marker), system=system, messages=[user(content)])
    assert reply.content[0].text.endswith("You said: Hello there")


def test_errors_are_what_the_sdk_expects(client, connect, marker):
    with pytest.raises(anthropic.AuthenticationError) as wrong:
        connect("bk-nobody").messages.create(**base(marker), messages=[user("Hi")])
    assert wrong.value.body["error"]["type"] == "authentication_error"
    with pytest.raises(anthropic.BadRequestError) as bad:
        client.messages.create(**base(marker), messages=[])
    assert bad.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.RateLimitError):
        client.messages.create(**base(marker, model="mock-error-429"), messages=[user("Hi")])
    with pytest.raises(anthropic.InternalServerError):
        client.messages.create(**base(marker, model="mock-error-500"), messages=[user("Hi")])


def test_a_stream_that_is_cut_raises(client, marker):
    with pytest.raises(anthropic.APIError):
        with client.messages.stream(**base(marker, model="mock-long-20-cut"), messages=[user("Hi")]) as stream:
            stream.get_final_message()


def test_tokens_are_counted(client):
    count = client.messages.count_tokens(model="mock", messages=[user("Hello there")], tools=[TOOL])
    assert 20 < count.input_tokens < 100
