"""Small things that the tests share."""

SENTENCE = "The train to the coast leaves twice an hour"


def user(text):
    """A user message."""
    return {"role": "user", "content": text}


def text_of(chunks):
    """The text that a stream's chunks add up to."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
