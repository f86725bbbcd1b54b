"""A gateway with virtual keys, for LangChain."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from fixtures import marker, upstream, virtual  # noqa: E402, F401
