"""Coding agents, by requests of the form that they send: their user is remembered, and nothing else in them is learned.

Each JSON file is the first request of a session as the agent made it (Claude Code 2.1.328, Codex CLI 0.169, Aider 0.86.2, opencode
1.18.33), with its instructions and tools cut down to a few words, some of which sound as if a person had said them. SAID stands for the user's words,
SESSION for what the agent makes anew for each session. The agents themselves are hundreds of megabytes each.
"""

import json
import urllib.request
import uuid
from pathlib import Path

import harness
import pytest

AGENTS = {file.stem: file.read_text() for file in sorted(Path(__file__).parent.glob("*.json"))}
TOLD = "Hi, I'm Ada. I am allergic to peanuts."
ASKED = "What should I not cook tonight?"


def session(gateway, agent, said, user=None):
    """Sends the first request of a new session. Returns the reply's headers, once it was read to its end."""
    written = AGENTS[agent].replace('"SAID"', json.dumps(said)).replace("SESSION", str(uuid.uuid4()))
    request = json.loads(written)
    named = {"x-backstory-user": user} if user else {}
    headers = {"content-type": "application/json", "authorization": "Bearer sk-tests", **request["headers"], **named}
    call = urllib.request.Request(gateway + request["path"], data=json.dumps(request["body"]).encode(), headers=headers)
    with urllib.request.urlopen(call, timeout=30) as reply:
        assert reply.read()
        headers = {name.lower(): value for name, value in reply.headers.items()}
    assert "x-backstory-memory" in headers, f"{request['path']} is passed through"
    return headers


def wait(settled):
    urllib.request.urlopen(settled, timeout=30).close()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_next_session_knows_what_the_user_said_and_nothing_else(agent, gateway, settled):
    first = session(gateway, agent, TOLD, user="ada")
    assert first["x-backstory-memory"] == "miss"
    wait(settled)
    learned = {fact["key"]: fact["value"] for fact in harness.facts(gateway, "ada")}
    assert learned == {"identity.name": "Ada", "diet.allergy": "peanuts"}

    assert session(gateway, agent, ASKED, user="ada")["x-backstory-memory"].startswith("hit; facts=2; ")
    assert session(gateway, agent, ASKED, user="bob")["x-backstory-memory"] == "miss"


def test_claude_code_names_its_user_and_memory_outlives_its_session(gateway, settled):
    session(gateway, "claude-code", TOLD)
    wait(settled)
    assert session(gateway, "claude-code", ASKED)["x-backstory-memory"].startswith("hit; facts=2; ")
