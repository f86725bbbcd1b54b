"""A mock as upstream for all pages, and a gateway with a memory of its own for each."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from fixtures import gateway, mock, settled  # noqa: E402, F401
