"""LangChain's ChatOpenAI through a virtual key: chat, streams, tools, structured output, errors, and what was used."""

import json

import openai
import pytest
from harness import ADMIN_KEY, PROVIDER_KEY, VIRTUAL_KEY, facts, get_json, usage, wait_for
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

SENTENCE = "The train to the coast leaves twice an hour"


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


@pytest.fixture
def model(virtual, marker):
    """Makes a model of a user whom nobody else uses."""

    def make(name, key=VIRTUAL_KEY, **settings):
        headers = {"x-backstory-user": f"user-{marker}"}
        return ChatOpenAI(
            model=name, base_url=f"{virtual}/v1", api_key=key, max_retries=0, timeout=20, default_headers=headers, **settings
        )

    return make


def test_a_chat_is_answered_and_the_virtual_key_stays_here(model, upstream, marker):
    reply = model("plain").invoke(f"When does the train leave? {marker}")
    assert reply.content == SENTENCE
    assert reply.usage_metadata["total_tokens"] == 29
    headers = upstream.seen(marker)[0]["headers"]
    assert headers["authorization"] == f"Bearer {PROVIDER_KEY}"
    assert VIRTUAL_KEY not in str(headers)


def test_a_stream_adds_up_with_and_without_usage(model, marker):
    for asked in (False, True):
        pieces = list(model("plain", stream_usage=asked).stream(f"And now? {asked} {marker}"))
        assert len(pieces) > 8
        whole = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        assert whole.content == SENTENCE
        # What we ask for, for our own books, is not the client's.
        assert (whole.usage_metadata or {}).get("total_tokens") == (29 if asked else None)


def test_a_tool_loop_streamed_and_not(model, marker):
    bound = model("tools").bind_tools([weather])
    question = HumanMessage(f"What is the weather in Lisbon? {marker}")
    called = bound.invoke([question])
    streamed = None
    for piece in bound.stream([question]):
        streamed = piece if streamed is None else streamed + piece
    for message in (called, streamed):
        [call] = message.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Lisbon"})
    answer = bound.invoke([question, called, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])])
    assert answer.content == "The tool said: 21 degrees in Lisbon"


def test_json_mode(model, marker):
    reply = model("json").bind(response_format={"type": "json_object"}).invoke(f"A trip as JSON. {marker}")
    assert json.loads(reply.content) == {"city": "Lisbon", "days": 3}


def test_what_was_said_is_remembered(model, virtual, marker, upstream):
    model("plain").invoke(f"I'm allergic to peanuts. {marker}")
    wait_for(lambda: facts(virtual, f"user-{marker}", VIRTUAL_KEY), "the allergy is known")
    model("plain").invoke(f"What should I not eat? {marker}")
    assert "peanuts" in json.dumps(upstream.seen(marker)[-1]["body"]["messages"])


def test_embeddings(virtual, marker):
    embeddings = OpenAIEmbeddings(
        model="plain", base_url=f"{virtual}/v1", api_key=VIRTUAL_KEY, check_embedding_ctx_length=False, max_retries=0
    )
    assert embeddings.embed_documents([f"a {marker}", f"b {marker}"]) == [[0.25, -0.5, 1.0]] * 2


def test_errors_are_the_sdks_own(model, marker):
    with pytest.raises(openai.AuthenticationError):
        model("plain", key="bk-somebody-elses").invoke(marker)
    with pytest.raises(openai.RateLimitError):
        model("error-429").invoke(marker)


def test_what_was_used_is_booked_to_the_token(model, virtual, marker):
    model("priced").invoke(f"How long? {marker}")
    list(model("priced").stream(f"And? {marker}"))
    [row] = usage(virtual, f"group_by=key,model&subject=user-{marker}", 2)["data"]
    assert (row["key"], row["exchanges"], row["estimated"]) == ("team-a", 2, 0)
    assert (row["input_tokens"], row["output_tokens"], row["cost_micros"]) == (40, 18, 76)


def test_the_models_that_the_key_may_use_are_listed(virtual):
    names = [entry["id"] for entry in get_json(f"{virtual}/v1/models", {"authorization": f"Bearer {VIRTUAL_KEY}"})["data"]]
    assert "priced" in names and ADMIN_KEY not in str(names)
