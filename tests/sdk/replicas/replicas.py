"""Three gateways over one PostgreSQL and one Redis, an official SDK that hops between them, and what goes wrong there.

    python tests/sdk/replicas/replicas.py

What is remembered through one is recalled through another; a tool loop that hops keeps its block; a limit is that of all together; an
erasure reaches every cache; a killed replica's jobs are taken over; a rolling restart loses nothing; and an SQLite database is moved over while
its gateway runs. The servers are those of `scripts/servers`. Bounded in time and in work.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from openai import APIConnectionError, APIStatusError, OpenAI

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import BINARY, PATIENT, Gateway, Upstream, facts, request, wait_for  # noqa: E402

POSTGRES = os.environ.get("BACKSTORY_TEST_POSTGRES")
REDIS = os.environ.get("BACKSTORY_TEST_REDIS")
# What a killed worker had claimed is free again when its lease ends.
LEARN_SECONDS = 90
LIMIT = 12
# Exchanges before and after what goes wrong.
ENOUGH = 60


def database():
    """Makes a database of our own; returns its address."""
    name = f"replicas_{random.randrange(16**12):012x}"
    subprocess.run(["psql", POSTGRES, "-qc", f"CREATE DATABASE {name}"], check=True)
    return POSTGRES.rsplit("/", 1)[0] + "/" + name


def drop(url):
    subprocess.run(["psql", POSTGRES, "-qc", f"DROP DATABASE {url.rsplit('/', 1)[1]} WITH (FORCE)"], check=False)


def config(upstream, store):
    return f"""{PATIENT}
[store]
url = "{store}"
acknowledge_wait_ms = 30000

[vectors]
engine = "pgvector"

[redis]
url = "{REDIS}"
prefix = "replicas-{store.rsplit("_", 1)[1]}:"
timeout_ms = 2000

[[providers]]
name = "upstream"
base_url = "{upstream}/v1"
api_key = "sk-provider"
default = true

[[keys]]
key = "bk-open"
tenant = "acme"

[[keys]]
key = "bk-limited"
tenant = "acme"
memory = "off"
requests_per_minute = {LIMIT}
"""


def client(gateway, key="bk-open", user=None):
    headers = {"x-backstory-user": user} if user else {}
    return OpenAI(base_url=f"{gateway.url}/v1", api_key=key, default_headers=headers, max_retries=0, timeout=20)


def say(gateway, user, *texts):
    messages = [{"role": "user", "content": text} for text in texts]
    return client(gateway, user=user).chat.completions.create(model="plain", messages=messages)


def known(gateway, user):
    return json.dumps([fact.get("value") for fact in facts(gateway.url, user, "bk-open")], ensure_ascii=False)


def recalled_elsewhere(gateways, upstream):
    say(gateways[0], "ann", "I'm allergic to peanuts. My order number is KX-112233.")
    for gateway in gateways:
        wait_for(lambda: "KX-112233" in known(gateway, "ann"), "what one replica learned is known to another")
    marker = f"m{random.randrange(10**9)}"
    say(gateways[1], "ann", f"Which nuts must I avoid? {marker}")
    sent = json.dumps(upstream.seen(marker))
    assert "peanuts" in sent, sent
    say(gateways[2], "bob", f"Which nuts must I avoid? {marker}b")
    assert "peanuts" not in json.dumps(upstream.seen(marker + "b")), "another user's memory"


def a_tool_loop_hops(gateways, upstream):
    marker = f"t{random.randrange(10**9)}"
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    messages = [{"role": "user", "content": f"Which nuts must I avoid on my trip? {marker}"}]
    first = client(gateways[0], user="ann").chat.completions.create(model="tools", messages=messages, tools=tools)
    call = first.choices[0].message
    # Between the two steps something else is learned, which must not change what this turn shows.
    say(gateways[1], "ann", "I moved to Rome.")
    wait_for(lambda: "Rome" in known(gateways[2], "ann"), "the move is known")
    messages += [
        call.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "sunny"},
    ]
    client(gateways[2], user="ann").chat.completions.create(model="tools", messages=messages, tools=tools)
    bodies = [json.loads(seen["body"]) if isinstance(seen.get("body"), str) else seen.get("body", seen) for seen in upstream.seen(marker)]
    prompts = [body["messages"] for body in bodies if "messages" in body]
    assert len(prompts) == 2, prompts
    assert "peanuts" in json.dumps(prompts[0]), "the turn shows nothing that could change"
    shared = len(prompts[0])
    assert prompts[1][:shared] == prompts[0], f"the block changed within a turn:\n{prompts[0]}\n{prompts[1]}"


def a_limit_is_that_of_all(gateways):
    passed, refused = [], []

    def ask(gateway):
        for _ in range(LIMIT):
            try:
                client(gateway, "bk-limited").chat.completions.create(model="plain", messages=[{"role": "user", "content": "hi"}])
                passed.append(1)
            except APIStatusError as error:
                assert error.status_code == 429, error
                refused.append(1)

    threads = [threading.Thread(target=ask, args=(gateway,)) for gateway in gateways]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # What drains meanwhile may be used again; over the edge goes at most a request a replica.
    drained = (time.monotonic() - begun) * LIMIT / 60
    assert LIMIT <= len(passed) <= LIMIT + drained + len(gateways), (len(passed), drained)
    assert refused


def an_erasure_reaches_all(gateways, upstream):
    marker = f"e{random.randrange(10**9)}"
    headers = {"authorization": "Bearer bk-open", "x-backstory-user": "ann"}
    status, receipt = request(f"{gateways[2].url}/memory/v1/subject", "DELETE", headers=headers, timeout=30)
    assert status == 200 and receipt["complete"] and receipt["remains"], receipt
    for n, gateway in enumerate(gateways):
        say(gateway, "ann", f"Which nuts must I avoid, and what is my order number? {marker}-{n}")
        sent = json.dumps(upstream.seen(f"{marker}-{n}"))
        assert "peanuts" not in sent and "KX-112233" not in sent, sent


class Talker(threading.Thread):
    """States one number after the other to whichever replica is there, until told to end."""

    def __init__(self, gateways, name, end):
        super().__init__(daemon=True)
        self.gateways, self.name, self.end = gateways, name, end
        self.complete, self.trouble = [], []

    def run(self):
        n = 0
        while not self.end.is_set():
            n += 1
            number = f"KX-{random.randrange(10**9):09d}"
            gateway = self.gateways[(n + hash(self.name)) % len(self.gateways)]
            try:
                say(gateway, self.name, f"My order number is {number}.")
                self.complete.append(number)
            except APIConnectionError:
                pass  # That replica is away: the next one is asked.
            except APIStatusError as error:
                self.trouble.append(str(error))
            time.sleep(0.02)


def under_load(gateways, what):
    end = threading.Event()
    talkers = [Talker(gateways, f"talker{random.randrange(10**9)}", end) for _ in range(4)]
    for talker in talkers:
        talker.start()
    answered = lambda: sum(len(talker.complete) for talker in talkers)  # noqa: E731
    wait_for(lambda: answered() >= ENOUGH, "everybody is answered", 60)
    what()
    before = answered()
    wait_for(lambda: answered() >= before + ENOUGH, "everybody is answered again", 60)
    end.set()
    for talker in talkers:
        talker.join(30)
    trouble = [line for talker in talkers for line in talker.trouble]
    assert not trouble, trouble[:3]
    return {talker.name: set(talker.complete) for talker in talkers}


def nothing_is_lost(gateway, told):
    deadline = time.monotonic() + LEARN_SECONDS
    while True:
        lost = []
        for user, numbers in told.items():
            listed = json.dumps(facts(gateway.url, user, "bk-open"), ensure_ascii=False)
            history = listed + json.dumps(superseded(gateway, user), ensure_ascii=False)
            lost += [number for number in numbers if number not in history]
        if not lost:
            return sum(map(len, told.values()))
        assert time.monotonic() < deadline, f"lost {len(lost)}, as {lost[:3]}"
        time.sleep(0.5)


def superseded(gateway, user):
    """Every change of a user: an order number that a newer one took the place of stands there."""
    headers = {"authorization": "Bearer bk-open", "x-backstory-user": user}
    status, export = request(f"{gateway.url}/memory/v1/changes?limit=1000", headers=headers)
    return export if status == 200 else []


def moved_while_it_runs(upstream):
    folder, target = tempfile.mkdtemp(prefix="backstory-move-"), database()
    source = Gateway(upstream=upstream.url, data=folder, config=PATIENT)
    moved = None
    try:
        texts = [f"My order number is KX-{n:09d}." for n in range(20)]
        for n, text in enumerate(texts):
            OpenAI(base_url=f"{source.url}/v1", api_key="sk-tests", default_headers={"x-backstory-user": f"user{n}"}).chat.completions.create(
                model="plain", messages=[{"role": "user", "content": text}]
            )
        wait_for(lambda: all(facts(source.url, f"user{n}") for n in range(20)), "all is learned")

        def migrate():
            command = [BINARY, "migrate", "--from", f"sqlite://{folder}/backstory.db", "--to", target]
            done = subprocess.run(command, capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

        code, said = migrate()
        assert code == 0 and "rows differed" in said, said
        source.stop()
        code, said = migrate()
        assert code == 0, said
        code, said = migrate()
        assert code == 0 and "both databases are the same" in said, said
        moved = Gateway(config=f'[store]\nurl = "{target}"\n' + PATIENT, upstream=upstream.url, embedded=False)
        for n in range(20):
            assert f"KX-{n:09d}" in json.dumps(facts(moved.url, f"user{n}")), n
        code, said = migrate()
        assert code != 0 and "has served from the target" in said, said
    finally:
        source.kill()
        if moved:
            moved.stop()
        shutil.rmtree(folder, ignore_errors=True)
        drop(target)


def main():
    if not POSTGRES or not REDIS or not shutil.which("psql"):
        if os.environ.get("BACKSTORY_TEST_SERVERS") == "required":
            sys.exit("BACKSTORY_TEST_POSTGRES and BACKSTORY_TEST_REDIS are not set")
        print("SKIPPED replicas: scripts/servers has no PostgreSQL and Redis here")
        return
    store, upstream = database(), Upstream()
    written = config(upstream.url, store)
    # All at once: one of them makes the tables.
    starting = [None] * 3

    def start(n):
        starting[n] = Gateway(config=written, embedded=False)

    gateways = starting
    try:
        threads = [threading.Thread(target=start, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(gateways), "a replica did not start"
        recalled_elsewhere(gateways, upstream)
        a_tool_loop_hops(gateways, upstream)
        a_limit_is_that_of_all(gateways)
        an_erasure_reaches_all(gateways, upstream)
        print("memory, pinned blocks, limits and erasures hold over three replicas")

        killed = under_load(gateways, gateways[0].kill)
        n = nothing_is_lost(gateways[1], killed)
        print(f"a replica was killed under load: of {n} exchanges that a client saw complete none is lost")

        def roll():
            for at in (0, 1, 2):
                old = gateways[at]
                assert at == 0 or old.stop() == 0, "a replica did not end well"
                gateways[at] = Gateway(config=written, embedded=False)

        rolled = under_load(gateways, roll)
        n = nothing_is_lost(gateways[2], rolled)
        print(f"a rolling restart under load: of {n} exchanges none is lost")

        moved_while_it_runs(upstream)
        print("an SQLite database was moved to PostgreSQL while its gateway ran")
        codes = [gateway.stop() for gateway in gateways]
        assert codes == [0, 0, 0], codes
    finally:
        for gateway in gateways:
            if gateway:
                gateway.kill()
        upstream.kill()
        drop(store)


if __name__ == "__main__":
    main()
