"""The part of mem0 in `search.py`: in the process that searches, as a library is used, vectors in a folder by the local Qdrant.

Reads what to do as JSON on standard input, writes what it found as JSON in the last line of standard output.
"""

import json
import os
import sys
import time

from measure import resident_mb, timed

USER = {"user_id": "rider"}


def main():
    task = json.load(sys.stdin)
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=task["folder"], OPENAI_API_KEY="sk-none")
    from mem0 import Memory  # reads the environment when it is imported

    embedder = {"model": task["model"], "openai_base_url": task["url"]}
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{task['folder']}/qdrant", "embedding_model_dims": task["dimension"], "on_disk": True},
            },
            "embedder": {"provider": "openai", "config": embedder},
            # Never asked: with infer=False memories are stored as they are.
            "llm": {"provider": "openai", "config": {"openai_base_url": task["url"]}},
        }
    )
    ids = {}
    start = time.monotonic()
    for number, text in enumerate(task["memories"]):
        for added in memory.add(text, infer=False, **USER)["results"]:
            ids[added["id"]] = number
    write_seconds = time.monotonic() - start

    def search(question):
        return memory.search(question, filters=USER, top_k=task["limit"])["results"]

    def run(questions):
        numbers, answers = timed(search, questions, os.getpid(), task["embedder_process"])
        return numbers, [[(ids[hit["id"]], hit["score"]) for hit in hits] for hits in answers]

    search("warm up")
    # mem0 remembers no vectors: a repeated question costs what a new one does. They are kept here, for what is left without that.
    embed, vectors = memory.embedding_model.embed, {}

    def kept(text, action):
        vectors[text] = embed(text, action)
        return vectors[text]

    memory.embedding_model.embed = kept
    new, found = run(task["questions"])
    nonsense = run(task["nonsense"])[1]
    memory.embedding_model.embed = lambda text, action: vectors[text]
    at_hand, _ = run(task["questions"])
    result = {"new": new, "at_hand": at_hand, "found": found, "nonsense": nonsense}
    print(json.dumps({**result, "write_seconds": write_seconds, "resident_mb": resident_mb(os.getpid())}))


if __name__ == "__main__":
    main()
