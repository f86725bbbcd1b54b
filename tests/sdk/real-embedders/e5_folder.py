"""Turns the packed multilingual-e5-small of the test server into a model folder, for the engine `local`.

    python e5_folder.py PACKED FOLDER

The packed file holds the vocabulary and 4-bit weights; here they become tokenizer.json and model.safetensors (F16), as a hub has them. The table of
replacements is left to NFKC, which does the same to ordinary text.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np

NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
ENDS = {"w": "weight", "b": "bias"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def array(self, kind, count):
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found


def name_of(packed):
    if packed in NAMES:
        return NAMES[packed]
    layer, part, end = packed.split(".")
    return f"encoder.layer.{layer[1:]}.{PARTS[part]}.{ENDS[end]}"


def unpacked(blocks, count):
    """Blocks of 32 weights: a half-precision scale, then 16 bytes of two weights each."""
    rows = blocks[: count // 32 * 18].reshape(-1, 18)
    scales = rows[:, :2].copy().view(np.float16).astype(np.float32)
    low, high = (rows[:, 2:] & 15).astype(np.int8) - 8, (rows[:, 2:] >> 4).astype(np.int8) - 8
    return (np.concatenate([low, high], axis=1) * scales).astype(np.float16).reshape(-1)


def main(packed, folder):
    data = Path(packed).read_bytes()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    reader = Reader(data)
    reader.take("II")
    hidden, layers, heads, wide, _, places, _, epsilon, _ = reader.take("iiiiiiifi")
    pieces, start, end, pad, unknown = reader.take("iiiii")
    (size,) = reader.take("Q")
    offsets, scores = reader.array("<u4", pieces + 1), reader.array("<f4", pieces)
    blob = data[reader.at : reader.at + size]
    reader.at += size
    _, size = reader.take("iI")
    reader.at += size
    vocabulary = [
        [blob[offsets[at] : offsets[at + 1]].decode("utf-8", "replace"), float(scores[at])] for at in range(pieces)
    ]

    tensors = {}
    shapes = {"fi": (wide, hidden), "fo": (hidden, wide)}
    (count,) = reader.take("i")
    for _ in range(count):
        (length,) = reader.take("H")
        name = bytes(reader.take(f"{length}s")[0]).decode()
        kind, numbers, offset, size = reader.take("BIQQ")
        part = name.split(".")[1] if not name.startswith("emb") else ""
        raw = np.frombuffer(data, np.uint8, size, offset)
        if size == numbers * 4:
            values = raw.copy().view("<f4").astype(np.float16)
        else:
            values = unpacked(raw, size // 18 * 32)
        if name in ("emb.word", "emb.pos", "emb.type"):
            values = values.reshape(-1, hidden)
        elif name.endswith(".w") and part not in ("aln", "oln", "ln") and not name.startswith("emb"):
            values = values.reshape(shapes.get(part, (hidden, hidden)))
        tensors[name_of(name)] = values

    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(values.tobytes())

    special = {"<s>": start, "</s>": end, "<pad>": pad, "<unk>": unknown}
    spaces = [{"type": "Replace", "pattern": {"String": mark}, "content": " "} for mark in "\t\n\r"]
    frame = [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}]
    tokenizer = {
        "added_tokens": [{"id": id, "content": name, "special": True} for name, id in special.items()],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*spaces, {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}],
        },
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": frame,
            "special_tokens": {name: {"id": name, "ids": [special[name]]} for name in ("<s>", "</s>")},
        },
        "model": {"type": "Unigram", "unk_id": unknown, "vocab": vocabulary},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    config = {
        "model_type": "bert",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": wide,
        "max_position_embeddings": places,
        "layer_norm_eps": epsilon,
        "hidden_act": "gelu",
    }
    (folder / "config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main(*sys.argv[1:])
