"""Reads a page of `docs/`: its blocks of code as one program in each language, and what the page says that it prints.

A block of a language that runs (`python`, `js`, `sh`) is a part of the page's program in that language: later blocks use what
earlier ones made. What a line prints stands behind it as a comment, in a shell block also below it; `…` stands for anything. All
other blocks are shown only.
"""

import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Where a line says what it prints.
PRINTED = {
    "python": re.compile(r"print\(.*\)  # (.+)$"),
    "js": re.compile(r"console\.log\(.*\);  // (.+)$"),
    "sh": re.compile(r"(?:^|  )# (.+)$"),
}


@dataclass
class Program:
    """The blocks of one page in one language, in their order, and the lines that it says they print."""

    blocks: list = field(default_factory=list)
    prints: list = field(default_factory=list)


def blocks(text):
    """All blocks of a page, as (language, code)."""
    return FENCE.findall(text)


def programs(text):
    """The programs of a page by language."""
    found = {}
    for language, code in blocks(text):
        if language not in PRINTED:
            continue
        program = found.setdefault(language, Program())
        program.blocks.append(code)
        program.prints += [said.group(1) for line in code.splitlines() if (said := PRINTED[language].search(line))]
    return found


def missing(prints, output):
    """The first of these lines that the output does not have behind the ones before it, or None."""
    position = 0
    for line in prints:
        pattern = ".*?".join(re.escape(part) for part in line.split("…"))
        found = re.compile(pattern).search(output, position)
        if not found:
            return line
        position = found.end()
    return None
