"""A mock as upstream for all pages, and a gateway with a memory of its own for each."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness  # noqa: E402
from settled import Settled  # noqa: E402

# A reply ends when it is durable, and a recall takes the time that it needs: what is tested is what is shown, not how fast.
CONFIG = f"{harness.PATIENT}\n[store]\nacknowledge_wait_ms = 10000\n"


@pytest.fixture(scope="session")
def mock():
    """The address of `backstory mock`."""
    running = harness.Process([harness.BINARY, "mock", "--listen", "127.0.0.1:0"])
    yield running.url
    assert running.stop() == 0


@pytest.fixture
def gateway(mock):
    """The address of `backstory serve` in front of the mock."""
    running = harness.Gateway(upstream=mock, config=CONFIG)
    yield running.url
    assert running.stop() == 0


@pytest.fixture
def settled(gateway):
    """An address that answers once the gateway has learned from all that it was told."""
    with Settled(gateway) as url:
        yield url


@pytest.fixture
def apis(gateway):
    """The APIs with memory that this gateway has beside chat completions."""
    found = set()
    for name, body in {
        "responses": {"model": "mock", "input": "Hello?"},
        "messages": {"model": "mock", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello?"}]},
    }.items():
        if "x-backstory-memory" in harness.reply_headers(f"{gateway}/v1/{name}", body):
            found.add(name)
    return found
