"""What the tests share: the gateway, the upstream behind it, SDK clients, and a marker that is unique to each test."""

import os
import sys
import uuid
from pathlib import Path

import openai
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness  # noqa: E402


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
def url(upstream):
    """The gateway's address."""
    if url := os.environ.get("BACKSTORY_URL"):
        yield url
        return
    gateway = harness.Gateway(upstream=upstream.url, config=harness.PATIENT)
    yield gateway.url
    gateway.stop()


@pytest.fixture(scope="session")
def virtual(upstream):
    """The address of a gateway with virtual keys."""
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


@pytest.fixture
def connect(url):
    """Makes an SDK client for a user. Retries are off, so that a test sees what really happens."""
    clients = []

    def make(user=None, retries=0, key="sk-tests", base=None):
        headers = {"x-backstory-user": user} if user else {}
        client = openai.OpenAI(
            base_url=f"{base or url}/v1", api_key=key, max_retries=retries, timeout=20, default_headers=headers
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect, marker):
    """A client of a user whom nobody else uses."""
    return connect(user=f"user-{marker}")
