"""The tokenizer that a prepared directory gets from its GGUF file."""

import itertools
import logging

import gguf
import pytest
import regex
from tiny_models import silent, tiny, write_gguf
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from quantdrift.models.checkpoint import prepare
from quantdrift.models.gguf_tokenizer import write_tokenizer

# llama.cpp's expressions for tokenizer.ggml.pre = smollm, one after the other.
SMOLLM_SPLITS = (
    r"\p{N}",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
)
TEXTS = (
    "Hello, world!",
    "The quick brown fox doesn't jump over 12345 lazy dogs, nor 3.14159.",
    "  two spaces,   3 of them\n\nand newlines\n  42\t7",
    "naïve café 🙂👍🏽 日本語 ½ ²³",
    "  12  34",
    "def f(x):\n    return x ** 2  # x²\n",
    "",
    " ",
)


def fields_of(path) -> dict:
    return {
        key.removeprefix("tokenizer."): field.contents()
        for key, field in gguf.GGUFReader(path).fields.items()
        if key.startswith("tokenizer.")
    }


class ByteLevelBpe:
    """Byte-pair encoding as it is written: the best-ranked pair is merged until there is none."""

    def __init__(self, tokens, merges, splits):
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.ranks = {tuple(merge.split(" ")): i for i, merge in enumerate(merges)}
        self.splits = splits

    def encode(self, text: str) -> list[int]:
        pieces = [text]
        for split in self.splits:
            pieces = [part for piece in pieces for part in cut(piece, split)]
        return [self.ids[token] for piece in pieces for token in self.merged(piece)]

    def merged(self, piece: str) -> list[str]:
        letters = [bytes_to_unicode()[byte] for byte in piece.encode()]
        while len(letters) > 1:
            pairs = list(itertools.pairwise(letters))
            best = min(pairs, key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            i = pairs.index(best)
            letters[i : i + 2] = ["".join(best)]
        return letters


def cut(text: str, pattern: str) -> list[str]:
    """The text in pieces: what matches, and what lies between."""
    pieces, at = [], 0
    for match in regex.finditer(pattern, text):
        pieces += [text[at : match.start()], match[0]]
        at = match.end()
    return [piece for piece in [*pieces, text[at:]] if piece]


@pytest.mark.demo_model
def test_the_demo_model_has_its_tokenizer(demo_gguf, demo_as_it_came):
    stored = fields_of(demo_gguf)
    tokenizer = AutoTokenizer.from_pretrained(demo_as_it_came.directory, local_files_only=True)
    assert stored["ggml.pre"] == "smollm"
    assert tokenizer.bos_token == "<|im_start|>"
    assert tokenizer.eos_token == "<|im_end|>"
    for name, key in {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}.items():
        index = stored[f"ggml.{key}_token_id"]
        assert getattr(tokenizer, f"{name}_token_id") == index
        assert getattr(tokenizer, f"{name}_token") == stored["ggml.tokens"][index]
    assert tokenizer.chat_template == stored["chat_template"]
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == stored["ggml.tokens"]
    own = ByteLevelBpe(stored["ggml.tokens"], stored["ggml.merges"], SMOLLM_SPLITS)
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        assert ids == own.encode(text), text
        assert tokenizer.decode(ids) == text
    chat = "<|im_start|>user\nHi<|im_end|>"
    assert tokenizer(chat).input_ids[0] == tokenizer.bos_token_id
    assert tokenizer(chat).input_ids[-1] == tokenizer.eos_token_id


PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
WORDS = ["▁", "a", "b", "c", "ab", "▁ab", "▁abc", "1", "▁1"]


def sentencepiece(writer: gguf.GGUFWriter) -> None:
    tokens = [*PIECES, *WORDS]
    kinds = [2, 3, 3, *[6] * 256, *[1] * len(WORDS)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(WORDS))])
    writer.add_token_types(kinds)
    writer.add_add_bos_token(True)
    writer.add_unk_token_id(0)


def model_with(tmp_path, metadata, family="llama", size=268):
    model = tiny(family, vocab_size=size)
    return write_gguf(model, tmp_path / "t.gguf", left_out=("tokenizer",), metadata=metadata)


@pytest.mark.parametrize("family", ["llama", "gemma3", "phi3"])
def test_sentencepiece_vocabularies_put_bos_first(tmp_path, family):
    path = model_with(tmp_path, sentencepiece, family)
    prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    assert (tokenizer.bos_token, tokenizer.bos_token_id) == ("<s>", 1)
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("</s>", 2)
    ids = tokenizer("abc 1🙂").input_ids
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert tokens[0] == "<s>"
    assert tokens.count("<s>") == 1
    assert tokens[-4:] == [f"<0x{byte:02X}>" for byte in "🙂".encode()]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "abc 1🙂"
    assert len(tokenizer) == len(PIECES) + len(WORDS)


def byte_level(split: str | None):
    letters = sorted(bytes_to_unicode().values())
    tokens = ["<pad>", "<bos>", "<eos>", *letters, "12", "ab", "Ġa", "whole"]

    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        if split is not None:
            writer.add_tokenizer_pre(split)
        writer.add_token_list(tokens)
        writer.add_token_types([3, 3, 3, *[1] * (len(tokens) - 3)])
        writer.add_token_merges(["1 2", "a b", "Ġ a"])

    return add, len(tokens)


@pytest.mark.parametrize(("split", "digits"), [("smollm", ["1", "2"]), ("gpt-2", ["12"])])
def test_digits_are_cut_out_where_llama_cpp_does(tmp_path, split, digits):
    add, size = byte_level(split)
    path = model_with(tmp_path, add, size=size)
    assert write_tokenizer(path, tmp_path) is None
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("12ab ab") == [*digits, "ab", "Ġ", "ab"]


@pytest.mark.parametrize(
    ("split", "whole"), [("llama-bpe", True), ("tekken", True), ("gpt-2", False)]
)
def test_whole_words_and_bos_are_as_in_llama_cpp(tmp_path, split, whole):
    add, size = byte_level(split)
    path = model_with(tmp_path, add, size=size)
    prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("whole").input_ids)
    assert tokens == (["<bos>", "whole"] if whole else list("whole"))
    assert len(tokenizer) == size


@pytest.mark.parametrize("split", [None, "default", "of-next-year"])
def test_an_unknown_split_writes_no_tokenizer_and_says_so(tmp_path, split, caplog):
    add, size = byte_level(split)
    path = model_with(tmp_path, add, size=size)
    with caplog.at_level(logging.WARNING, "quantdrift"):
        records = prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    assert records
    assert f"tokenizer.ggml.pre = '{split}'" in caplog.text
    assert not list((tmp_path / "out").glob("tokenizer*"))


@pytest.mark.parametrize("kind", ["bert", "rwkv", None])
def test_a_vocabulary_that_transformers_cannot_convert_says_so(tmp_path, kind, caplog):
    def add(writer: gguf.GGUFWriter) -> None:
        if kind is not None:
            writer.add_tokenizer_model(kind)
        writer.add_token_list(["a", "b", "c"])

    path = model_with(tmp_path, add)
    with caplog.at_level(logging.WARNING, "quantdrift"):
        prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    assert "comes without a tokenizer: transformers cannot convert it" in caplog.text
    assert not list((tmp_path / "out").glob("tokenizer*"))


def test_merges_of_unknown_tokens_say_so(tmp_path):
    add, size = byte_level("gpt-2")

    def wrong(writer: gguf.GGUFWriter) -> None:
        add(writer)
        writer.add_token_merges(["x yz"])

    path = model_with(tmp_path, wrong, size=size)
    assert "transformers cannot convert it" in str(write_tokenizer(path, tmp_path))


def test_ids_that_would_differ_are_seen(tmp_path):
    def twice(writer: gguf.GGUFWriter) -> None:
        sentencepiece(writer)
        tokens = [*PIECES, *WORDS]
        tokens[-1] = "a"
        writer.add_token_list(tokens)

    path = model_with(tmp_path, twice)
    assert "where the file lists" in str(write_tokenizer(path, tmp_path))
    assert not list(tmp_path.glob("tokenizer*"))
