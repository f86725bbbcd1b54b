"""A gateway with virtual keys, for LangChain: the one that `run.py` started, or one of our own."""

import os
import sys
import uuid
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness  # noqa: E402


@pytest.fixture(scope="session")
def upstream():
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
