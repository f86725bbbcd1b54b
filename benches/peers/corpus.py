"""Made-up memories, one question in the same words and one in other words about each, and questions that no memory answers.

Every name stands once in every kind of memory, so a question has exactly one right answer.
"""

import random
from pathlib import Path

NAMES = """Ada Bruno Carla Dmitri Elena Farid Greta Hugo Ingrid Jonas Kaya Lorenzo Mirela Nadia Otto Paloma Quentin Rosa Stefan
Tamara Ulrich Vera Wanda Xenia Yusuf Zelda Anouk Bjorn Celeste Darius Edith Florian Gemma Hamid Isolde Jasper Kirsten Leopold
Magda Nils Olga Pavel Ruth Sergio Thea Ursula Viktor Wilma Yann Zora""".split()

# Of each kind: what is remembered of N, the question in the same words, in other words, and what X may be.
KINDS = [tuple(kind.split("\n")) for kind in Path(__file__).with_name("kinds.txt").read_text().strip().split("\n\n")]

SORTS = ("same words", "other words")

# Questions about things that were never spoken of.
ELSEWHERE = {
    "What is the boiling point of X?": "tungsten mercury gallium cobalt iridium".split(),
    "How many moons does X have?": "Neptune Saturn Uranus Pluto Jupiter".split(),
    "Who won the chess championship of X?": "1927 1948 1963 1986 1999".split(),
    "How do I sort a list in X?": "Haskell Fortran Erlang Prolog Pascal".split(),
    "Which treaty ended the war of X?": "1618 1701 1756 1812 1904".split(),
}


def memories():
    """Their texts; the place in the list is their number."""
    return [name + text[1:].replace("X", value) for name, (text, *_), value in _all()]


def questions(count, known):
    """So many of each sort, about the first `known` memories: (sort, question, number of the right memory)."""
    chosen = random.Random(11).sample(list(enumerate(_all()[:known])), count)
    asked = []
    for place, sort in enumerate(SORTS, 1):
        asked += [(sort, kind[place].replace(" N", f" {name}", 1), number) for number, (name, kind, _) in chosen]
    return asked


def nonsense(count):
    """Half about other things, half in words that there are not."""
    elsewhere = [question.replace("X", value) for question, values in ELSEWHERE.items() for value in values]
    dice = random.Random(13)

    def word():
        return "".join(dice.choice("bdfgklmnprstvz") + dice.choice("aeiou") for _ in range(dice.randint(2, 4)))

    invented = [" ".join(word() for _ in range(6)) + "?" for _ in range(count - count // 2)]
    return elsewhere[: count // 2] + invented


def _all():
    """Every name in every kind, in an order that looks random and is the same each time."""
    dice = random.Random(7)
    everything = [(name, kind, dice.choice(kind[3].split())) for name in NAMES for kind in KINDS]
    dice.shuffle(everything)
    return everything
