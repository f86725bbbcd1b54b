"""What a user said in one conversation is shown to the model in the next, to that user alone."""

import json

import openai
import pytest
from harness import Gateway, facts, wait_for
from support import user


def tell(client, text, **options):
    """One exchange in a conversation of its own, read to its end. Returns the response's headers."""
    raw = client.chat.completions.with_raw_response.create(model="plain", messages=[user(text)], **options)
    reply = raw.parse()
    if options.get("stream"):
        assert list(reply)
    return raw.headers


def shown(upstream, marker):
    """What upstream was sent in the newest request with this marker."""
    return json.dumps(upstream.seen(marker)[-1]["body"]["messages"], ensure_ascii=False)


@pytest.mark.parametrize("stream", [False, True])
def test_the_next_conversation_remembers_and_no_other_user_does(connect, url, upstream, marker, stream):
    alice, bob = f"alice-{marker}", f"bob-{marker}"
    tell(connect(user=alice), "I'm allergic to peanuts.", stream=stream)
    wait_for(lambda: "peanut" in json.dumps(facts(url, alice)), "the allergy is learned")

    headers = tell(connect(user=alice), f"Which snacks may I eat on the train? {marker}a")
    assert headers["x-backstory-memory"].startswith("hit")
    assert "peanut" in shown(upstream, f"{marker}a")

    headers = tell(connect(user=bob), f"Which snacks may I eat on the train? {marker}b")
    assert headers["x-backstory-memory"].startswith("miss")
    assert "peanut" not in shown(upstream, f"{marker}b")
    assert facts(url, bob) == []


def test_it_works_in_chinese(connect, url, upstream, marker):
    client = connect(user=f"user-{marker}")
    tell(client, "请记住我住在上海。")
    wait_for(lambda: "上海" in json.dumps(facts(url, f"user-{marker}"), ensure_ascii=False), "the home is learned")
    tell(client, f"我住在哪里？ {marker}")
    assert "上海" in shown(upstream, marker)


def test_a_number_is_found_again_word_for_word(connect, url, upstream, marker):
    client = connect(user=f"user-{marker}")
    tell(client, "My order number is KX-48213-B.")
    wait_for(lambda: "KX-48213-B" in json.dumps(facts(url, f"user-{marker}")), "the order is learned")
    tell(client, f"What was my order number again? {marker}")
    assert "KX-48213-B" in shown(upstream, marker)


def test_the_switch_narrows_one_request(connect, url, upstream, marker):
    name = f"user-{marker}"
    client = connect(user=name)
    tell(client, "I'm allergic to peanuts.")
    wait_for(lambda: "peanut" in json.dumps(facts(url, name)), "the allergy is learned")
    headers = tell(client, f"Which snacks may I eat? {marker}", extra_headers={"x-backstory-memory": "off"})
    assert headers["x-backstory-memory"].startswith("skipped")
    assert "peanut" not in shown(upstream, marker)


def test_without_any_header_the_subject_is_me(connect, upstream, marker):
    """As on a laptop: one person, no config. A gateway of its own, since `me` is everybody here."""
    gateway = Gateway(upstream=upstream.url)
    try:
        client = connect(base=gateway.url)
        tell(client, "My name is Ada Lovelace.")
        wait_for(lambda: "Ada" in json.dumps(facts(gateway.url, "me")), "the name is learned")

        def greeted():
            tell(client, f"Greet me by name. {marker}")
            return "Ada" in shown(upstream, marker)

        # More than once, since a busy machine may miss the default deadline of a recall.
        wait_for(greeted, "the name is shown")
    finally:
        assert gateway.stop() == 0


def test_a_virtual_key_names_the_tenant_and_never_goes_upstream(connect, upstream, marker):
    config = f"""
[[providers]]
name = "tests"
kind = "openai"
base_url = "{upstream.url}/v1"
api_key = "sk-of-the-provider"
default = true

[[models]]
name = "friendly"
[[models.targets]]
provider = "tests"
model = "plain"

[[keys]]
key = "bs-virtual-key-0001"
tenant = "shop"
namespace = "support"
models = ["friendly"]
"""
    gateway = Gateway(config=config)
    try:
        client = connect(user=f"user-{marker}", key="bs-virtual-key-0001", base=gateway.url)
        reply = client.chat.completions.create(model="friendly", messages=[user(f"Hello. {marker}")])
        assert reply.choices[0].finish_reason == "stop"
        sent = upstream.seen(marker)[0]
        assert sent["headers"]["authorization"] == "Bearer sk-of-the-provider"
        assert sent["body"]["model"] == "plain"
        assert "bs-virtual" not in json.dumps(sent)
        assert [model.id for model in client.models.list()] == ["friendly"]
        with pytest.raises(openai.NotFoundError) as unknown:
            client.chat.completions.create(model="unknown", messages=[user("Hello.")])
        assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.AuthenticationError):
            connect(key="bs-wrong", base=gateway.url).chat.completions.create(model="friendly", messages=[user("Hi.")])
    finally:
        assert gateway.stop() == 0
