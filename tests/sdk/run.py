"""Runs all SDK tests against one gateway and one scripted upstream, and stops both, whatever happens.

    .cache/sdk-python/bin/python tests/sdk/run.py

`scripts/sdk-tests` installs what this needs and calls it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness import BINARY, HERE, PATIENT, ROOT, VIRTUAL_KEY, Gateway, Process, Upstream, limited, with_dialects, with_virtual_keys

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


def messages(cache):
    """The official Anthropic SDKs, before upstreams of both kinds; each has an environment of its own."""
    python, node = CACHE / "sdk-anthropic" / "bin" / "python", CACHE / "sdk-anthropic-js"
    if python.exists():
        run("Anthropic SDK", [str(python), "-B", "-m", "pytest", "-q", "-o", cache, str(HERE / "anthropic")])
    if not node.exists():
        return
    test = shutil.copy(HERE / "anthropic-js" / "messages.test.mjs", node)
    mock = Process([BINARY, "mock", "--listen", "127.0.0.1:0"])
    try:
        for dialects in ('["chat", "messages"]', '["chat"]'):
            gateway = Gateway(config=with_dialects(mock.url, dialects))
            urls = {"MESSAGES_URL": gateway.url, "MESSAGES_KEY": VIRTUAL_KEY}
            try:
                run(f"Anthropic SDK for Node, {dialects}", ["node", "--test", "--test-reporter=spec", test], **urls)
            finally:
                gateway.stop()
    finally:
        mock.kill()


def main():
    upstream = gateway = virtual = with_limits = None
    cache = f"cache_dir={CACHE / 'pytest'}"
    try:
        upstream = Upstream()
        gateway = Gateway(upstream=upstream.url, config=PATIENT)
        virtual = Gateway(config=with_virtual_keys(upstream.url))
        with_limits = Gateway(config=limited(upstream.url))
        urls = {
            "BACKSTORY_URL": gateway.url,
            "VIRTUAL_URL": virtual.url,
            "LIMITED_URL": with_limits.url,
            "UPSTREAM_URL": upstream.url,
            "BACKSTORY_BIN": BINARY,
        }
        run("Python SDK and curl", [sys.executable, "-B", "-m", "pytest", "-q", "-o", cache, str(HERE / "python")], **urls)
        run("Node SDK", ["node", "--test", "--test-reporter=spec", *map(str, node_tests())], **urls)
        langchain = CACHE / "sdk-langchain" / "bin" / "python"
        if langchain.exists():
            run("LangChain", [str(langchain), "-B", "-m", "pytest", "-q", "-o", cache, str(HERE / "langchain")], **urls)
    finally:
        stopped = [running and running.stop() for running in (gateway, virtual, with_limits)]
        if upstream:
            upstream.kill()
    if stopped != [0, 0, 0]:
        sys.exit(f"a gateway did not end well on SIGTERM: exit codes {stopped}")
    messages(cache)
    documented = [str(HERE / "pages"), str(HERE / "agents")]
    run("what docs/ shows", [sys.executable, "-B", "-m", "pytest", "-q", "-rs", "-o", cache, *documented])
    collector = CACHE / "sdk-otlp" / "bin" / "python"
    if collector.exists():
        run("OpenTelemetry's own messages", [str(collector), "-B", str(HERE / "otlp" / "collect.py")])
    run("kill -9", [sys.executable, "-B", str(HERE / "python" / "crash.py")])
    run("replicas", [sys.executable, "-B", str(HERE / "replicas" / "replicas.py")])
    run("real embedding models", [sys.executable, "-B", str(HERE / "real-embedders" / "doctor.py")])
    run("a real small model", [sys.executable, "-B", str(HERE / "real-model" / "two_conversations.py")])
    run("a real small model beside mocks", [sys.executable, "-B", str(HERE / "real-model" / "beside_mocks.py")])


if __name__ == "__main__":
    main()
