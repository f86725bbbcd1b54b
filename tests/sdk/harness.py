"""Starts and stops what the SDK tests talk to: the scripted upstream and the gateway itself. Standard library only."""

import collections
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINARY = os.environ.get("BACKSTORY_BIN", str(ROOT / "target" / "debug" / "backstory"))
START_SECONDS = 30
# A busy machine may need more than the default 50 ms for a recall; what is tested is what is shown, not how fast.
PATIENT = "[recall]\ndeadline_ms = 5000\n"
# What a gateway with virtual keys is started with.
VIRTUAL_KEY = "bk-tests-0123456789abcdef"
ADMIN_KEY = "admin-tests-0123456789abcdef"
PROVIDER_KEY = "sk-provider-0123456789abcdef"


def with_virtual_keys(upstream):
    """A config: one virtual key, a price, and a key of our own for the upstream at this address."""
    return f"""{PATIENT}
[admin]
key = "{ADMIN_KEY}"

[[providers]]
name = "upstream"
base_url = "{upstream}/v1"
api_key = "{PROVIDER_KEY}"
default = true

[[models]]
name = "priced"
[[models.targets]]
provider = "upstream"
model = "plain"
price_input_per_million = 1
price_output_per_million = 2

[[keys]]
key = "{VIRTUAL_KEY}"
name = "team-a"
tenant = "acme"
"""


def usage(url, query, exchanges):
    """What a gateway with virtual keys says was used, once so many exchanges are in its books."""

    def booked():
        found = get_json(f"{url}/admin/v1/usage?{query}", {"authorization": f"Bearer {ADMIN_KEY}"})
        return found if found["totals"]["exchanges"] >= exchanges else None

    return wait_for(booked, f"{exchanges} exchanges are booked")


def with_dialects(upstream, dialects):
    """A config: one virtual key, and an upstream that takes these dialects as they are."""
    return f"""{PATIENT}
[[providers]]
name = "upstream"
base_url = "{upstream}/v1"
api_key = "{PROVIDER_KEY}"
dialects = {dialects}
default = true

[[keys]]
key = "{VIRTUAL_KEY}"
tenant = "acme"
"""


def limited(upstream):
    """The config of a gateway whose virtual keys have limits: of requests at a time, and of tokens a day."""
    keys = ""
    for language in ("python", "node"):
        keys += f"""
[[keys]]
key = "bk-{language}-one-at-a-time"
memory = "off"
max_concurrency = 1
[[keys]]
key = "bk-{language}-small-budget"
memory = "off"
tokens_per_day = 500
requests_per_minute = 100
"""
    return f"""{PATIENT}{keys}
[[providers]]
name = "upstream"
base_url = "{upstream}/v1"
api_key = "sk-provider"
default = true
"""


class Process:
    """A child that prints `listening on http://ADDRESS` once it is ready for connections."""

    def __init__(self, command, **options):
        self.lines = collections.deque(maxlen=50)
        self.url = None
        self._found = threading.Event()
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
        )
        # Read to the end, so that the child never blocks on a full pipe.
        threading.Thread(target=self._read, daemon=True).start()
        if not self._found.wait(START_SECONDS) or self.url is None:
            self.kill()
            raise RuntimeError(f"{command[0]} did not start; it said:\n" + "".join(self.lines))

    def _read(self):
        for line in self.child.stdout:
            self.lines.append(line)
            address = re.search(r"listening on (http://[0-9a-z.:\[\]]+)", line)
            if address and self.url is None:
                self.url = address.group(1)
                self._found.set()
        self._found.set()

    def kill(self):
        """As `kill -9` does: no chance to clean up."""
        self.child.kill()
        self.child.wait()

    def stop(self, seconds=20):
        """As an operator does. Returns the exit code."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


class Upstream(Process):
    """The scripted upstream of `upstream.py`."""

    def __init__(self):
        super().__init__([sys.executable, str(HERE / "upstream.py")])

    def seen(self, marker):
        return get_json(f"{self.url}/_/seen?marker={urllib.parse.quote(marker)}")

    def gone(self, marker):
        return get_json(f"{self.url}/_/gone?marker={urllib.parse.quote(marker)}")


class Gateway(Process):
    """`backstory serve` on a free port, with a data folder that can outlive it, or with the store that its config names."""

    def __init__(self, upstream=None, data=None, config=None, embedded=True):
        self.own_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="backstory-test-")
        command = [BINARY, "serve", "--listen", "127.0.0.1:0"]
        if embedded:
            command += ["--data", self.data]
        if upstream:
            command += ["--upstream", f"{upstream}/v1"]
        if config:
            path = Path(self.data) / "config.toml"
            path.write_text(config)
            command += ["--config", str(path)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTORY_")}
        super().__init__(command, env=environment)
        wait_for(lambda: get_status(f"{self.url}/readyz") == 200, "the gateway is ready")

    def stop(self, seconds=20):
        code = super().stop(seconds)
        if self.own_data:
            shutil.rmtree(self.data, ignore_errors=True)
        return code


def free_port():
    """A port that is free at this moment, for servers that cannot be told to choose one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def request(url, method="GET", body=None, headers=None, timeout=10):
    """Returns (status, decoded JSON or None)."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", **(headers or {})}
    call = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(call, timeout=timeout) as reply:
            return reply.status, decoded(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, decoded(error.read())


def decoded(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def get_status(url):
    try:
        return request(url)[0]
    except OSError:
        return None


def get_json(url, headers=None):
    status, value = request(url, headers=headers)
    if status != 200:
        raise RuntimeError(f"{url} answered {status}: {value}")
    return value


def facts(url, user, key="sk-tests"):
    """All facts of a user, over as many pages as there are."""
    return listed(f"{url}/memory/v1/facts", user, key)


def listed(url, user, key="sk-tests"):
    headers = {"authorization": f"Bearer {key}", "x-backstory-user": user}
    found, cursor = [], None
    for _ in range(1000):
        page = get_json(url + (f"?cursor={urllib.parse.quote(cursor)}" if cursor else ""), headers)
        found += page["data"]
        cursor = page.get("next")
        if not cursor:
            return found
    raise RuntimeError(f"{url} has no end")


def wait_for(condition, what, seconds=15):
    """Polls until `condition()` is true; a bounded wait for what happens after the reply."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not seen within {seconds} s: {what}")
