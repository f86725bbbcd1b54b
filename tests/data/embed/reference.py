"""Makes the models and the expected results in this folder, with other people's code: tokens by the library `tokenizers`, vectors by numpy.

    python3 -m venv v && v/bin/pip install numpy==2.4.6 tokenizers==0.23.3 sentencepiece==0.2.1 safetensors==0.8.0
    v/bin/python tests/data/embed/reference.py tiny                 # tiny models of random numbers, and what they must give
    v/bin/python tests/data/embed/reference.py real FOLDER OUT      # what a real model of a folder must give

The forward pass below is that of BERT in full precision, written to be read.
"""

import io
import json
import math
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).resolve().parent

# What users write, and what trips tokenizers: accents, full width, joined and broken characters, other scripts, controls.
TEXTS = [
    "What am I allergic to?",
    "I moved from Oslo to Rome in May, and my dog Bello came along.",
    "The quick brown fox jumps over the lazy dog.",
    "Order #4711-A: ¥5,999 (5999 元), v2.10.3-rc1 https://example.com/a?b=c",
    "我对花生过敏，请记住。",
    "明天下午三点在上海浦东开会，别忘了带设备清单！",
    "ＦＵＬＬ　ｗｉｄｔｈ ﬁne ①②③ ㎏",
    "Ünïcödé Straße café cafe\u0301 naïve İstanbul",
    "한국어 문장과 日本語の文、そして émojis 🎉👩‍👩‍👧",
    "مرحبا بالعالم שלום עולם",
    "tabs\tand\nnew lines\r\n  and   many    spaces ",
    "zero\u200bwidth \ufeff soft\u00adhyphen nul\u0000 \ufffd",
    "[SEP] [MASK] </s> <s> are words here",
    "a" * 130 + " supercalifragilisticexpialidocious",
    "",
    " ",
    "…—“quotes” ‘and’ $+=<>|^`~",
    "Привет, мир! Γειά σου Κόσμε",
]


def activation(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def norm(x, weights, name, epsilon):
    mean = x.mean(-1, keepdims=True)
    deviation = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + epsilon)
    return (x - mean) / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def embed(ids, weights, config, first=False):
    """The vector of one text."""
    skipped = 0 if config["model_type"] == "bert" else config["pad_token_id"] + 1
    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    places = np.arange(len(ids)) + skipped
    x = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][places]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], weights, "embeddings.LayerNorm", epsilon)
    for at in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{at}"
        parts = [linear(x, weights, f"{layer}.attention.self.{part}") for part in ("query", "key", "value")]
        query, key, value = (part.reshape(len(ids), heads, -1).transpose(1, 0, 2) for part in parts)
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = (shares @ value).transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(x + linear(mixed, weights, f"{layer}.attention.output.dense"), weights, f"{layer}.attention.output.LayerNorm", epsilon)
        wide = activation(linear(x, weights, f"{layer}.intermediate.dense"))
        x = norm(x + linear(wide, weights, f"{layer}.output.dense"), weights, f"{layer}.output.LayerNorm", epsilon)
    vector = x[0] if first else x.mean(0)
    return vector / np.linalg.norm(vector)


def shapes(config, words):
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    out = {
        "embeddings.word_embeddings.weight": (words, hidden),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
        "embeddings.LayerNorm": hidden,
    }
    for at in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{at}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            out[f"{layer}.attention.{part}"] = (hidden, hidden)
        out[f"{layer}.attention.output.LayerNorm"] = hidden
        out[f"{layer}.intermediate.dense"] = (wide, hidden)
        out[f"{layer}.output.dense"] = (hidden, wide)
        out[f"{layer}.output.LayerNorm"] = hidden
    return out


def random_weights(config, words, seed):
    numbers = np.random.default_rng(seed)
    weights = {}
    for name, shape in shapes(config, words).items():
        if isinstance(shape, int):
            weights[f"{name}.weight"] = 1.0 + 0.1 * numbers.standard_normal(shape)
            weights[f"{name}.bias"] = 0.1 * numbers.standard_normal(shape)
        elif name.endswith(".weight"):
            weights[name] = 0.5 * numbers.standard_normal(shape)
        else:
            weights[f"{name}.weight"] = numbers.standard_normal(shape) / math.sqrt(shape[1])
            weights[f"{name}.bias"] = 0.1 * numbers.standard_normal(shape[0])
    return {name: value.astype(np.float32) for name, value in weights.items()}


def expected(tokenizer, weights, config, limit, first, digits):
    tokenizer.no_padding()
    tokenizer.no_truncation()
    wide = {name: value.astype(np.float64) for name, value in weights.items()}
    out = []
    for text in TEXTS:
        if "[SEP]" in text:
            # Text for us, the token for the library.
            continue
        ids = tokenizer.encode(text).ids
        if len(ids) > limit:
            ids = ids[: limit - 1] + ids[-1:]
        vector = [round(float(x), digits) for x in embed(ids, wide, config, first)]
        out.append({"text": text, "ids": ids, "vector": vector})
    return out


def small_charsmap():
    """SentencePiece's own rules, those that the texts above need: its whole table has 300 kB."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    rules = {"ﬁ": "fi", "①": "1", "②": "2", "③": "3", "㎏": "kg", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ", "\u200b": " ", "\ufeff": "", "\u0000": "", "e\u0301": "é", "…": "..."}
    rules |= {chr(0xFF01 + at): chr(0x21 + at) for at in range(94)}
    table = HERE / "rules.tsv"
    table.write_text("".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n" for a, b in rules.items() if a != "\u0000"))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 3), model_writer=model, vocab_size=260, normalization_rule_tsv=str(table), hard_vocab_limit=False, minloglevel=2
    )
    table.unlink()
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap


def frame(tokenizer, start, end):
    pairs = [(name, tokenizer.token_to_id(name)) for name in (start, end)]
    return processors.TemplateProcessing(single=f"{start} $A {end}", pair=f"{start} $A {end} $B {end}", special_tokens=pairs)


def save(folder, tokenizer, config, weights, rows, pooling=None, limit=None):
    folder = HERE / folder
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(weights, folder / "model.safetensors")
    if pooling:
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling) + "\n")
    if limit:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}) + "\n")
    write(folder / "expected.jsonl", rows)


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows))


def tiny():
    common = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40, "hidden_act": "gelu", "layer_norm_eps": 1e-12}

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXTS[:9] * 2, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    tokenizer.post_processor = frame(tokenizer, "[CLS]", "[SEP]")
    config = {**common, "model_type": "bert", "max_position_embeddings": 64, "vocab_size": 300}
    weights = random_weights(config, tokenizer.get_vocab_size(), 1)
    rows = expected(tokenizer, weights, config, 24, True, 5)
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    save("tiny-wordpiece", tokenizer, config, weights, rows, pooling, 24)

    tokenizer = Tokenizer(models.Unigram())
    table = small_charsmap()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(table), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(TEXTS[:9] * 2, trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>"))
    tokenizer.post_processor = frame(tokenizer, "<s>", "</s>")
    config = {**common, "model_type": "xlm-roberta", "max_position_embeddings": 66, "pad_token_id": 1, "layer_norm_eps": 1e-5, "vocab_size": 300}
    weights = random_weights(config, tokenizer.get_vocab_size(), 2)
    rows = expected(tokenizer, weights, config, 64, False, 5)
    save("tiny-unigram", tokenizer, config, {f"roberta.{name}": value for name, value in weights.items()}, rows)


def real(folder, out):
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    limit = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    write(Path(out), expected(tokenizer, weights, config, limit, False, 4))


if __name__ == "__main__":
    if sys.argv[1:] == ["tiny"]:
        tiny()
    elif len(sys.argv) == 4 and sys.argv[1] == "real":
        real(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
