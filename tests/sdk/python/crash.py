"""Kills the gateway with -9 under load, again and again, and then looks for every exchange that a client saw complete.

    python tests/sdk/python/crash.py [ROUNDS]

Each exchange says a number that no other says. After the last start each of those numbers, as far as its client read the
reply to the end, must be among its user's facts: once, not twice, and not under another user. Bounded in time and in work.
"""

import http.client
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlparse

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import Gateway, Upstream, facts, wait_for  # noqa: E402

CLIENTS = 6
STATEMENTS_PER_USER = 100
# What a killed worker had claimed is free again when its lease ends.
LEARN_SECONDS = 90
# The end of a reply waits for the outbox, but not for ever: what is released after that wait is not promised. Here it
# waits longer than the disk of any machine may stall.
CONFIG = "[store]\nacknowledge_wait_ms = 30000\n"


class Client(threading.Thread):
    """States one number after the other until the gateway is gone."""

    def __init__(self, url, name):
        super().__init__(daemon=True)
        self.address = urlparse(url).netloc
        self.name = name
        # (user, number) of every exchange whose reply was read to its end, and of every one that was begun.
        self.complete, self.begun = [], []

    def run(self):
        connection = http.client.HTTPConnection(self.address, timeout=10)
        try:
            for n in range(10_000):
                user = f"{self.name}-{n // STATEMENTS_PER_USER}"
                number = f"KX-{random.randrange(10**9):09d}"
                self.begun.append((user, number))
                self.exchange(connection, user, number, stream=n % 2 == 0)
                self.complete.append((user, number))
        except (OSError, http.client.HTTPException):
            pass  # The gateway was killed: what was under way is not complete.
        finally:
            connection.close()

    def exchange(self, connection, user, number, stream):
        messages = [{"role": "user", "content": f"My order number is {number}."}]
        body = json.dumps({"model": "plain", "stream": stream, "messages": messages})
        headers = {"content-type": "application/json", "authorization": "Bearer sk-tests", "x-backstory-user": user}
        connection.request("POST", "/v1/chat/completions", body, headers)
        reply = connection.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise SystemExit(f"status {reply.status} under load: {text[:300]}")
        if stream and not text.endswith(b"data: [DONE]\n\n"):
            raise http.client.IncompleteRead(text)


def load_until_killed(gateway, round_number):
    clients = [Client(gateway.url, f"round{round_number}-client{n}") for n in range(CLIENTS)]
    for client in clients:
        client.start()
    # The first exchanges wait for what is loaded on first use; a kill before any is complete would test little.
    wait_for(lambda: any(client.complete for client in clients), "a first exchange is complete")
    time.sleep(random.uniform(0, 0.5))
    gateway.kill()
    for client in clients:
        client.join(10)
    return clients


def learned(url, users):
    """How often each number is known, over all these users, as (user, number) -> times."""
    times = {}
    for user in users:
        for fact in facts(url, user):
            found = json.dumps(fact.get("value"), ensure_ascii=False)
            number = found[found.index("KX-") :][:12] if "KX-" in found else None
            if number:
                times[user, number] = times.get((user, number), 0) + 1
    return times


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    seed = random.randrange(2**32)
    random.seed(seed)
    data = tempfile.mkdtemp(prefix="backstory-crash-")
    upstream = Upstream()
    gateway = None
    try:
        complete, begun = set(), set()
        for round_number in range(rounds):
            gateway = Gateway(upstream=upstream.url, data=data, config=CONFIG)
            for client in load_until_killed(gateway, round_number):
                complete.update(client.complete)
                begun.update(client.begun)
        gateway = Gateway(upstream=upstream.url, data=data, config=CONFIG)
        started = time.monotonic()
        times = learned(gateway.url, {user for user, _ in begun})
        while lost := complete - times.keys():
            if time.monotonic() - started > LEARN_SECONDS:
                break
            time.sleep(0.2)
            times.update(learned(gateway.url, {user for user, _ in lost}))
        # Once more in full: a second copy may have come later than the first.
        times = learned(gateway.url, {user for user, _ in begun})
        lost = complete - times.keys()
        twice = {entry for entry, count in times.items() if count > 1}
        strange = times.keys() - begun
        print(
            f"{rounds} kills (seed {seed}): {len(begun)} exchanges begun, {len(complete)} seen complete, "
            f"{len(times)} learned within {time.monotonic() - started:.1f} s after the last start; "
            f"lost {len(lost)}, twice {len(twice)}, under another user {len(strange)}"
        )
        if lost or twice or strange:
            raise SystemExit(f"e.g. lost {sorted(lost)[:3]}, twice {sorted(twice)[:3]}, strange {sorted(strange)[:3]}")
        if gateway.stop() != 0:
            raise SystemExit("the gateway did not end well after the crashes")
    finally:
        if gateway:
            gateway.kill()
        upstream.kill()
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
