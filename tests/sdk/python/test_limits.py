"""Limits as the SDK meets them: its class of error, its own retries, and when it does not try again."""

import os
import threading
import time

import openai
import pytest
from harness import Gateway, limited
from support import SENTENCE, user


@pytest.fixture(scope="module")
def limited_url(upstream):
    """A gateway whose keys have limits: the one that `run.py` started, or one of our own."""
    if url := os.environ.get("LIMITED_URL"):
        yield url
        return
    gateway = Gateway(config=limited(upstream.url))
    yield gateway.url
    gateway.stop()


def test_a_refusal_is_a_rate_limit_error_that_says_what_is_left(connect, limited_url, marker):
    client = connect(base=limited_url, key="bk-python-one-at-a-time")
    open_stream = client.chat.completions.create(model="stall", messages=[user(f"Wait. {marker}")], stream=True)
    next(iter(open_stream))
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="plain", messages=[user(f"Now. {marker}")])
    open_stream.close()
    assert (caught.value.type, caught.value.code) == ("requests", "rate_limit_exceeded")
    assert caught.value.response.headers["retry-after"] == "1"
    assert "at a time" in caught.value.body["message"]


def test_the_sdk_waits_as_long_as_it_is_told_and_gets_its_answer(connect, limited_url, upstream, marker):
    first = connect(base=limited_url, key="bk-python-one-at-a-time")
    # The slot of the test before is free once its stream is known to be closed.
    open_stream = first.with_options(max_retries=5).chat.completions.create(
        model="stall", messages=[user(f"Wait. {marker}")], stream=True
    )
    next(iter(open_stream))
    threading.Timer(0.3, open_stream.close).start()
    begun = time.monotonic()
    second = connect(base=limited_url, key="bk-python-one-at-a-time", retries=1)
    reply = second.chat.completions.create(model="plain", messages=[user(f"Then I. {marker}")])
    assert reply.choices[0].message.content == SENTENCE
    assert time.monotonic() - begun > 0.95, "it came again after a second, as Retry-After said, and not by its own clock"


def test_the_sdk_does_not_try_again_what_a_days_budget_refuses(connect, limited_url, upstream, marker):
    client = connect(base=limited_url, key="bk-python-small-budget", retries=5)
    ask = client.chat.completions.with_raw_response.create
    first = ask(model="plain", messages=[user(f"A first one. {marker}")], max_tokens=50)
    left = int(first.headers["x-ratelimit-remaining-tokens"])
    assert 0 < left < 500
    assert first.headers["x-ratelimit-remaining-requests"] == "99"
    begun = time.monotonic()
    with pytest.raises(openai.RateLimitError) as caught:
        ask(model="plain", messages=[user(f"A long one. {marker}long")], max_tokens=490)
    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - begun < 2, "five tries would take longer"
    assert upstream.seen(f"{marker}long") == []
