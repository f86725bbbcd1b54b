"""What `docs/` shows works: the programs of every page run as they stand there, and print what the page says."""

import json
import os
import re
import subprocess
import tomllib

import markdown
import pytest
from harness import BINARY, ROOT

DOCS = ROOT / "docs"
CACHE = ROOT / ".cache"
PAGES = {page.name: page.read_text() for page in sorted(DOCS.glob("*.md"))}
# The environment, under .cache/, in which a page's program runs.
ENVIRONMENTS = {
    ("anthropic-sdk.md", "js"): "sdk-anthropic-js",
    ("anthropic-sdk.md", "python"): "sdk-anthropic",
    ("curl.md", "sh"): None,
    ("langchain.md", "js"): "sdk-langchain-js",
    ("langchain.md", "python"): "sdk-langchain",
    ("llamaindex.md", "python"): "sdk-llamaindex",
    ("openai-node.md", "js"): "sdk-node",
    ("openai-python.md", "python"): "sdk-python",
    ("vercel-ai-sdk.md", "js"): "sdk-vercel",
}
# Ends a block, so that the next one is a conversation that knows of this one.
WAIT = {
    "python": "__import__('urllib.request').request.urlopen('{url}')\n",
    "js": "await fetch('{url}');\n",
    "sh": "\ncurl -sS '{url}'\n",
}
SECONDS = 90


def command(page, language, folder):
    """The command that runs a program of a page, and the file that it is to be in; skips where the packages are missing."""
    environment = ENVIRONMENTS[page, language]
    if environment and not (CACHE / environment).exists():
        pytest.skip(f"{environment} is not installed")
    if language == "python":
        return [str(CACHE / environment / "bin" / "python"), "-B"], folder / "page.py"
    if language == "js":
        # Node looks for a module from the file's own folder upwards.
        return ["node"], CACHE / environment / f"page-{page.removesuffix('.md')}.mjs"
    return ["bash", "-euo", "pipefail"], folder / "page.sh"


@pytest.mark.parametrize(("page", "language"), ENVIRONMENTS, ids=lambda value: value.removesuffix(".md"))
def test_a_page_does_what_it_says(page, language, gateway, settled, tmp_path):
    run, file = command(page, language, tmp_path)
    program = markdown.programs(PAGES[page])[language]
    wait = WAIT[language].format(url=settled)
    file.write_text("".join(block + wait for block in program.blocks).replace("http://127.0.0.1:8080", gateway))
    done = subprocess.run([*run, str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "allergy: peanuts" in done.stdout, f"the mock was not shown the memory:\n{done.stdout}"
    unsaid = markdown.missing(program.prints, done.stdout)
    assert unsaid is None, f"{page} says that it prints `{unsaid}`, but it printed:\n{done.stdout}"


def test_every_program_of_every_page_is_run():
    found = {(page, language) for page, text in PAGES.items() for language in markdown.programs(text)}
    assert found == set(ENVIRONMENTS)


def test_settings_can_be_read_by_those_they_are_for(tmp_path):
    for page, text in PAGES.items():
        for language, code in markdown.blocks(text):
            assert language in {"python", "js", "sh", "console", "toml", "json", "yaml", "text"}, f"{page}: {language}"
            if language == "toml" and "providers" in tomllib.loads(code):
                check(code, tmp_path)
            if language == "json":
                json.loads(code)


def check(config, folder):
    """Has the gateway check a config, with a value in each variable that it names."""
    file = folder / "backstory.toml"
    file.write_text(config)
    variables = {name: "a-key-of-the-tests" for name in re.findall(r"\$\{(\w+)\}", config)}
    done = subprocess.run([BINARY, "check", "--config", str(file)], env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, f"{config}\n{done.stdout}{done.stderr}"


def test_links_lead_somewhere_and_the_index_has_every_page():
    for page, text in PAGES.items():
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (DOCS / target).exists(), f"{page} links {target}"
    for page in PAGES:
        assert page == "README.md" or f"]({page})" in PAGES["README.md"], f"the index has no {page}"


def test_what_a_page_prints_is_found_in_order_and_a_gap_stands_for_anything():
    output = "hit; facts=2; tokens=31\n2\n"
    assert markdown.missing(["hit; facts=2; …", "2"], output) is None
    assert markdown.missing(["2", "hit; facts=2"], output) is not None
    assert markdown.missing(["miss"], output) == "miss"
