"""The gateway and its SDK clients."""

import os
import sys
from pathlib import Path

import openai
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness  # noqa: E402
from fixtures import marker, upstream, virtual  # noqa: E402, F401


@pytest.fixture(scope="session")
def url(upstream):
    """The gateway's address."""
    if url := os.environ.get("BACKSTORY_URL"):
        yield url
        return
    gateway = harness.Gateway(upstream=upstream.url, config=harness.PATIENT)
    yield gateway.url
    gateway.stop()


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
