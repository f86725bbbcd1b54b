"""A mock as upstream for all pages, and a gateway with a memory of its own for each."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness  # noqa: E402
from fixtures import gateway, mock, settled  # noqa: E402, F401


@pytest.fixture
def apis(gateway):  # noqa: F811
    """The APIs with memory that this gateway has beside chat completions."""
    probes = {
        "responses": {"model": "mock", "input": "Hello?"},
        "messages": {"model": "mock", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello?"}]},
    }
    return {name for name, body in probes.items() if "x-backstory-memory" in harness.reply_headers(f"{gateway}/v1/{name}", body)}
