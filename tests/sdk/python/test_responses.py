"""The Responses API through the official Python SDK: it notices nothing, and memory and budgets work as in chat completions."""

import json
import urllib.request

import openai
import pytest
from harness import facts, wait_for
from support import SENTENCE, user

TOOL = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
# How a stream of one message begins and ends.
FIRST = ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
LAST = ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"]


def tell(client, said, **options):
    """One response, read to its end. Returns the headers and the response."""
    raw = client.responses.with_raw_response.create(**{"model": "plain", "input": said, **options})
    reply = raw.parse()
    if options.get("stream"):
        reply = list(reply)[-1].response
    return raw.headers, reply


def shown(upstream, marker):
    """What upstream was sent in the newest request with this marker."""
    body = upstream.seen(marker)[-1]["body"]
    return json.dumps([body.get("instructions"), body["input"]], ensure_ascii=False)


def known(url, name, what):
    wait_for(lambda: what in json.dumps(facts(url, name)), f"{what} is learned")


# --- the SDK notices nothing


def test_a_response_is_created_and_the_headers_tell_what_was_done(client, marker):
    headers, reply = tell(client, f"When does the train leave? {marker}")
    assert reply.output_text == SENTENCE
    assert (reply.status, reply.usage.total_tokens) == ("completed", 29)
    assert headers["x-request-id"] and headers["x-backstory-exchange"]
    assert headers["x-backstory-memory"].split(";")[0] in ("hit", "miss")
    assert "attempts=1" in headers["x-backstory-target"]
    counts = dict(part.strip().split("=") for part in headers["x-backstory-context"].split(";") if "=" in part)
    assert int(counts["counted"]) > 0


def test_a_stream_arrives_event_by_event(client, marker):
    with client.responses.create(model="plain", input=f"And now? {marker}", stream=True) as stream:
        events = list(stream)
    kinds = [event.type for event in events]
    assert (kinds[:4], kinds[-4:]) == (FIRST, LAST)
    words = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(words) == SENTENCE
    assert len(words) > 8
    assert events[-1].response.output_text == SENTENCE


def test_the_sdks_stream_helper_puts_a_response_together(client, marker):
    with client.responses.stream(model="plain", input=f"Once more. {marker}") as stream:
        assert stream.until_done().get_final_response().output_text == SENTENCE


def test_the_bytes_of_a_stream_are_upstreams_own(url, upstream, marker):
    body = {"model": "plain", "stream": True, "input": f"I'm allergic to peanuts. Byte for byte? {marker}"}

    def streamed(base):
        headers = {"content-type": "application/json", "authorization": "Bearer sk-tests", "x-backstory-user": f"user-{marker}"}
        call = urllib.request.Request(f"{base}/v1/responses", data=json.dumps(body).encode(), headers=headers)
        with urllib.request.urlopen(call, timeout=20) as reply:
            return reply.read()

    plain = streamed(upstream.url)
    assert streamed(url) == plain
    known(url, f"user-{marker}", "peanut")
    with_memory = streamed(url)
    # Upstream repeats the instructions that it got.
    told = upstream.seen(marker)[-1]["body"]["instructions"]
    assert "peanut" in told
    assert with_memory.replace(json.dumps(told).encode(), b"null") == plain, "also with memory shown"


def test_what_the_client_sends_reaches_upstream(client, upstream, marker):
    sent = {
        "instructions": "Be brief.",
        "metadata": {"trip": "7"},
        "reasoning": {"effort": "low"},
        "store": False,
        "text": {"format": {"type": "text"}},
    }
    tell(client, [user(f"Everything? {marker}")], extra_body={"unheard_of": [1, None]}, **sent)
    body = upstream.seen(marker)[-1]["body"]
    assert {name: body[name] for name in sent if name != "instructions"} == {k: v for k, v in sent.items() if k != "instructions"}
    assert body["instructions"].startswith("Be brief.")
    assert body["unheard_of"] == [1, None]


def test_off_means_invisible(client, upstream, marker):
    headers, _ = tell(client, f"Nothing added? {marker}", extra_headers={"x-backstory-memory": "off"})
    assert headers["x-backstory-memory"] == "skipped; reason=off"
    assert upstream.seen(marker)[-1]["body"] == {"model": "plain", "input": f"Nothing added? {marker}"}


# --- tools


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_loop_of_two_steps(client, upstream, marker, stream):
    items = [user(f"What is the weather in Lisbon? {marker}")]
    _, first = tell(client, items, model="tools", tools=[TOOL], stream=stream)
    [call] = first.output
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", {"city": "Lisbon"})

    items += [item.model_dump(exclude_none=True) for item in first.output]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}]
    _, second = tell(client, items, model="tools", tools=[TOOL], stream=stream)
    assert second.output_text == "The tool said: 21 degrees"
    sent = upstream.seen(marker)[-1]["body"]["input"]
    assert [item.get("type", item.get("role")) for item in sent[-3:]] == ["user", "function_call", "function_call_output"]
    assert sent[-2:] == items[-2:]


def test_a_tool_loop_over_previous_response_id(client, upstream, marker):
    _, first = tell(client, f"What is the weather in Lisbon? {marker}", model="tools", tools=[TOOL])
    result = [{"type": "function_call_output", "call_id": first.output[0].call_id, "output": f"rain {marker}"}]
    _, second = tell(client, result, model="tools", tools=[TOOL], previous_response_id=first.id)
    assert second.output_text == f"The tool said: rain {marker}"
    assert upstream.seen(marker)[-1]["body"]["input"] == result


def test_what_a_tool_says_is_not_learned(client, url, marker):
    items = [user(f"Who am I? {marker}")]
    _, first = tell(client, items, model="tools", tools=[TOOL])
    items += [item.model_dump(exclude_none=True) for item in first.output]
    items += [{"type": "function_call_output", "call_id": first.output[0].call_id, "output": "My name is Mallory."}]
    tell(client, items, model="tools", tools=[TOOL])
    # What is said last is learned last.
    tell(client, "I'm allergic to peanuts.")
    known(url, f"user-{marker}", "peanut")
    assert "Mallory" not in json.dumps(facts(url, f"user-{marker}"))


# --- memory


@pytest.mark.parametrize("stream", [False, True])
def test_the_next_conversation_remembers_and_no_other_user_does(connect, url, upstream, marker, stream):
    alice, bob = f"alice-{marker}", f"bob-{marker}"
    tell(connect(user=alice), "I'm allergic to peanuts.", stream=stream)
    known(url, alice, "peanut")

    headers, _ = tell(connect(user=alice), f"Which snacks may I eat on the train? {marker}a", stream=stream)
    assert headers["x-backstory-memory"].startswith("hit")
    assert "peanut" in shown(upstream, f"{marker}a")

    headers, _ = tell(connect(user=bob), f"Which snacks may I eat on the train? {marker}b", stream=stream)
    assert headers["x-backstory-memory"].startswith("miss")
    assert "peanut" not in shown(upstream, f"{marker}b")
    assert facts(url, bob) == []


def test_chat_completions_and_responses_share_one_memory(connect, url, upstream, marker):
    name = f"user-{marker}"
    client = connect(user=name)
    client.chat.completions.create(model="plain", messages=[user("I'm allergic to peanuts.")])
    known(url, name, "peanut")
    tell(client, f"Which snacks may I eat? {marker}a")
    assert "peanut" in shown(upstream, f"{marker}a")

    tell(client, "My order number is KX-48213-B.")
    known(url, name, "KX-48213-B")
    client.chat.completions.create(model="plain", messages=[user(f"What was my order number again? {marker}b")])
    assert "KX-48213-B" in json.dumps(upstream.seen(f"{marker}b")[-1]["body"])


@pytest.mark.parametrize("member", ["user", "safety_identifier", "metadata"])
def test_the_body_names_the_user(connect, url, marker, member):
    name = f"user-{marker}"
    tell(connect(), "I'm allergic to peanuts.", **{member: {"user_id": name} if member == "metadata" else name})
    known(url, name, "peanut")


def test_memory_is_shown_where_the_history_is_upstreams(connect, url, upstream, marker):
    name = f"user-{marker}"
    client = connect(user=name)
    tell(client, "I'm allergic to peanuts.")
    known(url, name, "peanut")
    _, first = tell(client, f"Good morning. {marker}a")
    headers, second = tell(client, f"Which snacks may I eat? {marker}b", previous_response_id=first.id)
    assert headers["x-backstory-memory"].startswith("hit")
    sent = upstream.seen(f"{marker}b")[-1]["body"]
    assert sent["previous_response_id"] == first.id == second.previous_response_id
    assert "peanut" in shown(upstream, f"{marker}b")


# --- errors


def test_a_previous_response_that_nobody_gave_out_is_upstreams_error(client, marker):
    with pytest.raises(openai.BadRequestError) as caught:
        tell(client, f"Go on. {marker}", previous_response_id=f"resp_unknown{marker}")
    assert caught.value.code == "previous_response_not_found"


@pytest.mark.parametrize(
    ("code", "exception"),
    [(400, openai.BadRequestError), (401, openai.AuthenticationError), (429, openai.RateLimitError), (500, openai.InternalServerError)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_error_keeps_its_class_and_its_words(client, marker, code, exception, stream):
    with pytest.raises(exception) as caught:
        tell(client, f"Hello. {marker}", model=f"error-{code}", stream=stream)
    assert caught.value.status_code == code
    assert caught.value.body["message"]


def test_our_own_errors_are_in_openai_form(client):
    with pytest.raises(openai.BadRequestError) as caught:
        tell(client, 7)
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", "input")


def test_a_cut_stream_is_an_error_and_not_an_end(client, marker):
    text, kinds = "", []
    with pytest.raises(openai.APIError):
        for event in client.responses.create(model="cut", input=f"Go on. {marker}", stream=True):
            kinds.append(event.type)
            text += event.delta if event.type == "response.output_text.delta" else ""
    assert text == "The train to"
    assert "response.completed" not in kinds


def test_a_client_that_leaves_takes_upstream_along(client, upstream, marker):
    stream = client.responses.create(model="stall", input=f"Wait. {marker}", stream=True)
    for event in stream:
        if event.type == "response.output_text.delta":
            break
    stream.close()
    wait_for(lambda: upstream.gone(marker), "upstream's client is gone", seconds=5)
