"""Two conversations with a real small model: what was said in the first is shown to it in the second.

The model (135 million parameters) is too weak to judge answers by; what it was shown and that it streams is what counts.
Skipped, with the reason, where model or engine could not be installed.
"""

import json
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import HERE, ROOT, Gateway, Process, facts, get_json, wait_for  # noqa: E402

import openai  # noqa: E402

MODELS = ROOT / ".cache" / "real-model"
ENGINE = ROOT / ".cache" / "real-model-node"


def ask(client, text):
    """Streams one answer. Returns it with the seconds until its first piece, and the memory header."""
    start = time.monotonic()
    call = client.chat.completions.with_raw_response.create(
        model="smollm2", messages=[{"role": "user", "content": text}], max_tokens=40, temperature=0, stream=True
    )
    first, pieces = None, []
    for chunk in call.parse():
        piece = chunk.choices[0].delta.content if chunk.choices else None
        if piece:
            first = first or time.monotonic() - start
            pieces.append(piece)
    assert first, "the model said nothing"
    return "".join(pieces).strip(), first, call.headers.get("x-backstory-memory", "")


def two_conversations(gateway, model):
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-none", max_retries=0, timeout=60)
    told, first, _ = ask(client, "Hello, my name is Marguerite. I live in Lisbon and I'm allergic to peanuts.")
    print(f"first conversation  (first piece after {first:.2f} s): {told!r}")
    wait_for(lambda: "Marguerite" in json.dumps(facts(gateway.url, "me")), "the name is learned")

    answer, first, header = ask(client, "What is my name?")
    print(f"second conversation (first piece after {first:.2f} s, memory: {header}): {answer!r}")
    shown = json.dumps(get_json(f"{model.url}/_/seen")[-1])
    assert "Marguerite" in shown, "the second conversation shows nothing of the first"
    assert header.startswith("hit"), header
    print(f"the model {'used' if 'Marguerite' in answer else 'was shown, but did not use,'} the name")


def main():
    found = sorted(MODELS.glob("**/*.gguf"))
    if not found or not (ENGINE / "node_modules").is_dir():
        print("SKIPPED real model: the model or the engine is not installed")
        return
    server = shutil.copy(HERE / "real-model" / "server.mjs", ENGINE)
    model = gateway = None
    try:
        model = Process(["node", server, str(found[0])])
        gateway = Gateway(upstream=model.url)
        two_conversations(gateway, model)
    finally:
        for process in (gateway, model):
            if process:
                process.stop()


if __name__ == "__main__":
    main()
