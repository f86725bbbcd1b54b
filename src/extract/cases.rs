//! The cases of `tests/data/extraction`, run through the rules path.
