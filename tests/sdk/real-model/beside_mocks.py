"""A real small model as one target of several, and `backstory mock` as the others, by the official SDK.

What is tested is routing: which target answers, streamed and not, and that a real server's answer passes. Skipped, with the
reason, where model or engine could not be installed.
"""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import BINARY, HERE, ROOT, Gateway, Process  # noqa: E402

import openai  # noqa: E402

MODELS = ROOT / ".cache" / "real-model"
ENGINE = ROOT / ".cache" / "real-model-node"
KEY = "bk-beside-mocks-0123456789"

CONFIG = """
[[keys]]
key = "{key}"
memory = "off"
[[providers]]
name = "local"
base_url = "{local}/v1"
[[providers]]
name = "mock"
base_url = "{mock}/v1"

[[models]]
name = "fallback"
[[models.targets]]
provider = "mock"
model = "mock-error-503"
order = 1
[[models.targets]]
provider = "local"
model = "smollm2"
order = 2
[models.targets.params]
rename = {{ max_completion_tokens = "max_tokens" }}
set = {{ temperature = 0 }}

[[models]]
name = "by-tools"
[[models.targets]]
provider = "mock"
model = "mock"
[models.targets.when]
tools = true
[[models.targets]]
provider = "local"
model = "smollm2"
[models.targets.when]
tools = false

[[models]]
name = "fastest"
pick = "least-latency"
[[models.targets]]
provider = "local"
model = "smollm2"
[[models.targets]]
provider = "mock"
model = "mock-fixed"
"""

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}


def ask(client, model, **more):
    """Returns the text (or the first tool's name) and who answered."""
    messages = [{"role": "user", "content": "Say one word."}]
    call = client.chat.completions.with_raw_response.create(model=model, messages=messages, max_completion_tokens=8, **more)
    target = call.headers["x-backstory-target"]
    if more.get("stream"):
        deltas = [chunk.choices[0].delta for chunk in call.parse() if chunk.choices]
        return "".join(delta.content or "" for delta in deltas), target
    message = call.parse().choices[0].message
    return message.content or message.tool_calls[0].function.name, target


def routes(client):
    for stream in (False, True):
        text, target = ask(client, "fallback", stream=stream)
        # The mock that fails may cool by the second request.
        assert target.startswith("local/smollm2; attempts="), target
        assert text.strip(), "the model said nothing"
    print(f"the real model answers where the mock fails: {text.strip()!r}")

    name, target = ask(client, "by-tools", tools=[TOOL])
    assert (name, target) == ("look_up", "mock/mock; attempts=1"), (name, target)
    _, target = ask(client, "by-tools")
    assert target == "local/smollm2; attempts=1", target
    print("requests with tools go to the one, all others to the other")

    answered = [ask(client, "fastest")[1].split("/")[0] for _ in range(6)]
    assert set(answered[:2]) == {"local", "mock"}, f"both are tried: {answered}"
    assert answered[2:] == ["mock"] * 4, f"the faster one stays: {answered}"
    print("the faster target is found, and stays")

    try:
        ask(client, "fastes")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found" and "fastest" in error.message, error
    else:
        raise AssertionError("an unknown model was answered")
    assert [model.id for model in client.models.list()] == ["fallback", "by-tools", "fastest"]


def main():
    found = sorted(MODELS.glob("**/*.gguf"))
    if not found or not (ENGINE / "node_modules").is_dir():
        print("SKIPPED real model beside mocks: the model or the engine is not installed")
        return
    server = shutil.copy(HERE / "real-model" / "server.mjs", ENGINE)
    started = []
    data = tempfile.mkdtemp(prefix="backstory-test-")
    try:
        local = Process(["node", server, str(found[0])])
        started.append(local)
        mock = Process([BINARY, "mock", "--listen", "127.0.0.1:0"])
        started.append(mock)
        gateway = Gateway(data=data, config=CONFIG.format(key=KEY, local=local.url, mock=mock.url))
        started.append(gateway)
        routes(openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=60))
    finally:
        for process in reversed(started):
            process.stop()
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
