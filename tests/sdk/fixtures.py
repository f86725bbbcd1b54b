"""What the tests in Python share: the upstreams, gateways in front of them, and a marker that is unique to each test."""

import os
import uuid

import harness
import pytest
from settled import Settled

# A reply ends when it is durable, and a recall takes the time that it needs: what is tested is what is shown, not how fast.
UNHURRIED = f"{harness.PATIENT}\n[store]\nacknowledge_wait_ms = 10000\n"


@pytest.fixture(scope="session")
def upstream():
    """The scripted upstream: the one that `run.py` started, or one of our own."""
    if url := os.environ.get("UPSTREAM_URL"):
        running = harness.Upstream.__new__(harness.Upstream)
        running.url = url
        yield running
        return
    running = harness.Upstream()
    yield running
    running.kill()


@pytest.fixture(scope="session")
def virtual(upstream):
    """The address of a gateway with virtual keys: the one that `run.py` started, or one of our own."""
    if url := os.environ.get("VIRTUAL_URL"):
        yield url
        return
    gateway = harness.Gateway(config=harness.with_virtual_keys(upstream.url))
    yield gateway.url
    gateway.stop()


@pytest.fixture
def marker():
    """A word that stands in this test's requests only."""
    return f"marker{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def mock():
    """The address of `backstory mock`."""
    running = harness.Process([harness.BINARY, "mock", "--listen", "127.0.0.1:0"])
    yield running.url
    assert running.stop() == 0


@pytest.fixture
def gateway(mock):
    """The address of a gateway in front of the mock, with a memory of this test alone."""
    running = harness.Gateway(upstream=mock, config=UNHURRIED)
    yield running.url
    assert running.stop() == 0


@pytest.fixture
def settled(gateway):
    """An address that answers once the gateway has learned from all that it was told."""
    with Settled(gateway) as url:
        yield url
