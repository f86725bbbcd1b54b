"""What the README promises to someone without an API key: `backstory mock` as upstream, `backstory serve` in front."""

import json

from harness import BINARY, Gateway, Process, facts, wait_for
from support import user


def test_the_mock_tells_in_the_next_conversation_what_it_was_shown(connect):
    mock = Process([BINARY, "mock", "--listen", "127.0.0.1:0"])
    gateway = None
    try:
        gateway = Gateway(upstream=mock.url)
        client = connect(base=gateway.url)
        client.chat.completions.create(model="mock", messages=[user("I'm allergic to peanuts.")])
        wait_for(lambda: "peanut" in json.dumps(facts(gateway.url, "me")), "the allergy is learned")

        def answered():
            reply = client.chat.completions.create(model="mock", messages=[user("Which snacks may I eat?")])
            return "peanut" in reply.choices[0].message.content

        # More than once, since a busy machine may miss the default deadline of a recall.
        wait_for(answered, "the mock was shown the allergy")
    finally:
        stopped = [process.stop() for process in (gateway, mock) if process]
    assert stopped == [0, 0]
