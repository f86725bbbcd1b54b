"""Errors keep their class in the SDK, and retries end where they should."""

import json
import subprocess

import openai
import pytest
from harness import wait_for
from support import SENTENCE, text_of, user


@pytest.mark.parametrize(
    ("code", "exception"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_an_upstream_error_keeps_its_class_and_its_words(client, marker, code, exception):
    with pytest.raises(exception) as caught:
        client.chat.completions.create(model=f"error-{code}", messages=[user(f"Hello. {marker}")])
    assert caught.value.status_code == code
    assert caught.value.body["message"]


def test_an_error_comes_before_a_stream_begins(client, marker):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="error-404", messages=[user(f"Hello. {marker}")], stream=True)
    assert caught.value.code == "model_not_found"


def test_our_own_errors_are_in_openai_form(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="plain", messages="not a list")
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param == "messages"


@pytest.mark.parametrize("code", [429, 500])
def test_the_sdk_retries_and_gets_its_answer(connect, upstream, marker, code):
    client = connect(user=f"user-{marker}", retries=2)
    reply = client.chat.completions.create(model=f"flaky-{code}", messages=[user(f"Try again. {marker}")])
    assert reply.choices[0].message.content == SENTENCE
    assert len(upstream.seen(marker)) >= 2


def test_a_cut_stream_is_an_error_and_not_an_end(client, marker):
    received = []
    with pytest.raises(openai.APIError):
        for chunk in client.chat.completions.create(model="cut", messages=[user(f"Go on. {marker}")], stream=True):
            received.append(chunk)
    assert text_of(received) == "The train to"


def test_a_client_that_leaves_takes_upstream_along(client, upstream, marker):
    stream = client.chat.completions.create(model="stall", messages=[user(f"Wait. {marker}")], stream=True)
    assert next(iter(stream)).choices[0].delta.role == "assistant"
    assert not upstream.gone(marker)
    stream.close()
    wait_for(lambda: upstream.gone(marker), "upstream's client is gone", seconds=5)


def test_curl_sees_the_stream_as_it_comes(url, marker):
    body = json.dumps({"model": "plain", "stream": True, "messages": [user(f"By curl. {marker}")]})
    command = ["curl", "-sN", "-m", "15", "-H", "content-type: application/json", "-H", "authorization: Bearer sk-tests"]
    command += ["-H", f"x-backstory-user: user-{marker}", "-d", body, f"{url}/v1/chat/completions"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    events = [line.removeprefix("data: ") for line in printed.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    words = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1]]
    assert "".join(words) == SENTENCE


def test_curl_gets_a_stalled_stream_at_once(url, marker):
    body = json.dumps({"model": "stall", "stream": True, "messages": [user(f"By curl. {marker}")]})
    command = ["curl", "-sN", "-m", "2", "-H", "content-type: application/json", "-H", "authorization: Bearer sk-tests"]
    command += ["-H", f"x-backstory-user: user-{marker}", "-d", body, f"{url}/v1/chat/completions"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert printed.returncode == 28, "curl ends by its own time limit"
    assert printed.stdout.count("data: ") == 4, "the role and three words were there before"
