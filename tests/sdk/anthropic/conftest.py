"""The gateway before an upstream of either kind, and the official Anthropic SDK as its client."""

import sys
from pathlib import Path

import anthropic
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness  # noqa: E402
from fixtures import marker, mock  # noqa: E402, F401

KEY = harness.VIRTUAL_KEY
DIALECTS = {"native": '["chat", "messages"]', "translated": '["chat"]'}


@pytest.fixture(scope="session", params=DIALECTS)
def url(request, mock):
    """The address of a gateway whose upstream takes messages as they are, or chat completions only."""
    gateway = harness.Gateway(config=harness.with_dialects(mock, DIALECTS[request.param]))
    yield gateway.url
    assert gateway.stop() == 0


@pytest.fixture
def connect(url):
    """Makes an SDK client. Retries are off, so that a test sees what really happens."""
    clients = []

    def make(key=KEY):
        client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=20)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture
def learned(url):
    """Waits until a user has this many facts."""

    def wait(user, count):
        return harness.wait_for(
            lambda: len(found) >= count and found if (found := harness.facts(url, user, KEY)) else None, f"{user} is known"
        )

    return wait
