"""Runs all SDK tests against one gateway and one scripted upstream, and stops both, whatever happens.

    .cache/sdk-python/bin/python tests/sdk/run.py

`scripts/sdk-tests` installs what this needs and calls it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness import BINARY, HERE, PATIENT, ROOT, Gateway, Upstream

CACHE = ROOT / ".cache"


def run(name, command, **environment):
    print(f"\n--- {name}", flush=True)
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}).returncode
    if code:
        sys.exit(f"{name} failed with exit code {code}")


def node_tests():
    """Copies the tests beside the installed SDK: Node looks for a module from the file's own folder upwards."""
    folder = CACHE / "sdk-node"
    copies = [Path(shutil.copy(source, folder)) for source in sorted((HERE / "node").glob("*.mjs"))]
    return [copy for copy in copies if copy.name.endswith(".test.mjs")]


def main():
    upstream = gateway = None
    try:
        upstream = Upstream()
        gateway = Gateway(upstream=upstream.url, config=PATIENT)
        urls = {"BACKSTORY_URL": gateway.url, "UPSTREAM_URL": upstream.url, "BACKSTORY_BIN": BINARY}
        cache = f"cache_dir={CACHE / 'pytest'}"
        run("Python SDK and curl", [sys.executable, "-B", "-m", "pytest", "-q", "-o", cache, str(HERE / "python")], **urls)
        run("Node SDK", ["node", "--test", "--test-reporter=spec", *map(str, node_tests())], **urls)
    finally:
        stopped = gateway and gateway.stop()
        if upstream:
            upstream.kill()
    if stopped != 0:
        sys.exit(f"the gateway did not end well on SIGTERM: exit code {stopped}")
    run("kill -9", [sys.executable, "-B", str(HERE / "python" / "crash.py")])
    run("a real small model", [sys.executable, "-B", str(HERE / "real-model" / "two_conversations.py")])


if __name__ == "__main__":
    main()
