#!/usr/bin/env python3
"""What a dialect, or a translation, costs the gateway: CPU of its process for one request, beside chat passed on as it is.

    cargo build --release && benches/dialects/run.py target/release/backstory

Needs wrk. Loopback alone, memory off, `backstory mock` as upstream; about two minutes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

MOCK, GATEWAY, KEY = "127.0.0.1:9921", "127.0.0.1:9922", "bs-0123456789abcdef"
SECONDS = 3
WORDS = "The weather in Oslo was fine, said the forecast. " * 3
# Three targets: one takes every dialect, the others one alone.
PROVIDERS = [("native", "openai", '"chat", "messages", "responses"'), ("chat", "openai", '"chat"'), ("anthropic", "anthropic", '"messages"')]


def config():
    text = f'[server]\nlisten = "{GATEWAY}"\n[[keys]]\nname = "k"\nkey = "{KEY}"\ntenant = "t"\nnamespace = "n"\nmemory = "off"\n'
    for name, kind, dialects in PROVIDERS:
        text += f'[[providers]]\nname = "{name}"\nkind = "{kind}"\nbase_url = "http://{MOCK}/v1"\ndialects = [{dialects}]\napi_key = "sk-1"\n'
        text += f'[[models]]\nname = "{name}"\n[[models.targets]]\nprovider = "{name}"\nmodel = "mock-fixed"\nmax_output = 1000\n'
    return text


def turns(n):
    return [{"role": ("user", "assistant")[at % 2], "content": WORDS * (1 if n < 9 else 8)} for at in range(n)]


def chat(model, n):
    return {"model": model, "messages": [{"role": "system", "content": "Be kind."}, *turns(n)]}


def messages(model, n):
    return {"model": model, "max_tokens": 100, "system": "Be kind.", "messages": turns(n)}


def responses(model, n, **more):
    return {"model": model, "instructions": "Be kind.", "input": turns(n), **more}


CASES = [
    ("chat, as it is", "chat/completions", lambda n: chat("native", n)),
    ("chat, translated for Anthropic", "chat/completions", lambda n: chat("anthropic", n)),
    ("messages, translated for chat", "messages", lambda n: messages("chat", n)),
    ("messages, as they are", "messages", lambda n: messages("native", n)),
    ("responses, store: false", "responses", lambda n: responses("native", n, store=False)),
    ("responses that upstream keeps", "responses", lambda n: responses("native", n)),
]


def cpu(process):
    """Seconds of computing so far."""
    times = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def cost(process, path, body, folder):
    """Microseconds of CPU for one request."""
    script = Path(folder, "request.lua")
    script.write_text(
        f'wrk.method="POST"\nwrk.headers["content-type"]="application/json"\nwrk.headers["authorization"]="Bearer {KEY}"\n'
        f"wrk.body=[==[{json.dumps(body)}]==]\n"
    )
    load = lambda seconds: subprocess.run(  # noqa: E731
        ["wrk", "-t1", "-c8", f"-d{seconds}s", "-s", script, f"http://{GATEWAY}/v1/{path}"], capture_output=True, text=True, check=True
    ).stdout
    load(1)
    before = cpu(process)
    told = load(SECONDS)
    assert "Non-2xx" not in told, told
    requests = next(int(line.split()[0]) for line in told.splitlines() if "requests in" in line)
    return (cpu(process) - before) / requests * 1e6


def wait():
    for _ in range(100):
        try:
            return urllib.request.urlopen(f"http://{GATEWAY}/readyz", timeout=1).close()
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the gateway did not start")


def main(binary):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "backstory.toml").write_text(config())
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        mock = subprocess.Popen([binary, "mock", "--listen", MOCK], **quiet)
        gateway = subprocess.Popen([binary, "serve", "--config", f"{folder}/backstory.toml", "--data", f"{folder}/data"], **quiet)
        try:
            wait()
            for stream in (False, True):
                for n in (3, 81):
                    base = None
                    for name, path, body in CASES:
                        took = cost(gateway, path, {**body(n), "stream": stream}, folder)
                        base = base or took
                        print(f"{'stream' if stream else 'json':7}{n:3} messages  {name:32}{took:8.1f} us {took / base:5.2f} x", flush=True)
        finally:
            for process in (gateway, mock):
                process.terminate()
                process.wait(timeout=30)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["target/release/backstory"])
