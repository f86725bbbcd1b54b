"""What the tests of all SDKs for Python share: the upstream, a gateway with virtual keys, and a marker that is unique to each test."""

import os
import uuid

import harness
import pytest


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
