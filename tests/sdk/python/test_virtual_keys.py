"""The official Python SDK through a virtual key: it never goes upstream, and what it used is in the books to the token."""

import openai
import pytest
from harness import PROVIDER_KEY, VIRTUAL_KEY, usage
from support import SENTENCE, text_of, user


@pytest.fixture
def client(connect, virtual, marker):
    return connect(user=f"user-{marker}", key=VIRTUAL_KEY, base=virtual)


def used_by(virtual, marker, exchanges):
    return usage(virtual, f"group_by=key,model,target&subject=user-{marker}", exchanges)


def test_a_virtual_key_is_ours_and_upstream_sees_the_providers(client, upstream, marker):
    reply = client.chat.completions.create(model="plain", messages=[user(f"Hello {marker}")])
    assert reply.choices[0].message.content == SENTENCE
    headers = upstream.seen(marker)[0]["headers"]
    assert headers["authorization"] == f"Bearer {PROVIDER_KEY}"
    assert VIRTUAL_KEY not in str(headers)


def test_another_key_is_refused(connect, virtual):
    with pytest.raises(openai.AuthenticationError):
        connect(user="anyone", key="bk-somebody-elses", base=virtual).models.list()


def test_what_was_used_is_booked_to_the_token(client, virtual, marker):
    client.chat.completions.create(model="priced", messages=[user(f"How long? {marker}")])
    chunks = list(client.chat.completions.create(model="priced", messages=[user(f"And? {marker}")], stream=True))
    assert text_of(chunks) == SENTENCE
    booked = used_by(virtual, marker, 2)
    [row] = booked["data"]
    assert (row["key"], row["model"], row["target"]) == ("team-a", "priced", "upstream/plain")
    assert (row["exchanges"], row["input_tokens"], row["output_tokens"], row["estimated"]) == (2, 40, 18, 0)
    assert row["cost_micros"] == 40 + 2 * 18
    assert booked["totals"]["cost_micros"] == 76


def test_a_stream_that_the_client_closes_is_booked(client, virtual, marker):
    stream = client.chat.completions.create(model="stall", messages=[user(f"Slowly. {marker}")], stream=True)
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    stream.close()
    [row] = used_by(virtual, marker, 1)["data"]
    assert (row["exchanges"], row["incomplete"], row["estimated"]) == (1, 1, 1)
    assert row["output_tokens"] > 0
