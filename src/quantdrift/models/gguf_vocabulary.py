"""A checkpoint's tokenizer as the metadata of a GGUF file: the inverse of `gguf_tokenizer.py`.

llama.cpp knows two ways to build words from a vocabulary: byte-level BPE (`gpt2`), which takes the
merges and a name for how text is split before, and SentencePiece's (`llama`), which joins the
neighbours whose union has the best score. The scores are the ranks of the merges.
"""

import json
from collections.abc import Iterator
from typing import Any

import gguf

from .checkpoint import Checkpoint

_SPLITS = ("llama-bpe", "smaug-bpe", "tekken", "qwen2", "qwen35", "gpt-4o")
"""One name (tokenizer.ggml.pre) for each pattern that transformers has a name for, too."""
_WHOLE_WORDS = ("llama-bpe", "tekken")
"""Those under which llama.cpp takes a whole word that is in the vocabulary as it is."""
_FILES = ("tokenizer.", "vocab.", "tekken.")
_SPACE = "▁"


class VocabularyError(ValueError):
    """llama.cpp would cut text otherwise than the checkpoint's tokenizer does."""


def add_vocabulary(writer: gguf.GGUFWriter, checkpoint: Checkpoint) -> None:
    """Add the tokenizer: tokens, types, merges or scores, special tokens, chat template.

    Rows of the embedding that no token has get unused tokens `[PAD<id>]`. What a tokenizer does
    beyond both ways (Unicode normalization NFC, blanks that an added token swallows) is not
    written, as in llama.cpp's converter.

    Raises:
        VocabularyError: the kind of model, a normalizer, or the split is none that llama.cpp has
            a name for, or there are more tokens than rows.
    """
    if not any(file.name.startswith(_FILES) for file in checkpoint.directory.iterdir()):
        writer.add_tokenizer_model("none")
        return
    from .causal_lm import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    try:
        _add(writer, tokenizer, checkpoint.geometry.vocabulary)
    except VocabularyError as error:
        raise VocabularyError(f"the tokenizer of {checkpoint.directory} {error}") from None


def _add(writer: gguf.GGUFWriter, tokenizer: Any, size: int) -> None:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise VocabularyError("is none of the tokenizers library, whose vocabularies are known.")
    state = json.loads(backend.to_str())
    model = state["model"]
    if model["type"] != "BPE":
        raise VocabularyError(f"is {model['type']}; llama.cpp's llama and gpt2 are BPE.")
    merges = [tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    if "ByteLevel" in {step["type"] for step in _steps(state["pre_tokenizer"])}:
        _only(state["normalizer"], ("NFC",), "normalizes")
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(_split_name(state))
        tokens, kinds = _tokens(state, size, tokenizer.unk_token)
        writer.add_token_merges([" ".join(merge) for merge in merges])
    else:
        _check_sentencepiece(state)
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        tokens, kinds = _tokens(state, size, tokenizer.unk_token)
        writer.add_token_scores(_scores(tokens, merges))
        writer.add_add_space_prefix(_puts_space_first(state))
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    _add_special(writer, tokenizer)


def _add_special(writer: gguf.GGUFWriter, tokenizer: Any) -> None:
    add = {
        "bos": writer.add_bos_token_id,
        "eos": writer.add_eos_token_id,
        "unk": writer.add_unk_token_id,
        "pad": writer.add_pad_token_id,
    }
    for name, add_id in add.items():
        if (index := getattr(tokenizer, f"{name}_token_id")) is not None:
            add_id(index)
    ids = tokenizer("a").input_ids
    writer.add_add_bos_token(bool(ids) and ids[0] == tokenizer.bos_token_id)
    writer.add_add_eos_token(bool(ids) and ids[-1] == tokenizer.eos_token_id)
    if isinstance(tokenizer.chat_template, str):
        writer.add_chat_template(tokenizer.chat_template)


def _tokens(
    state: dict[str, Any], size: int, unknown: str | None
) -> tuple[list[str], list[gguf.TokenType]]:
    """Every id's token and type; the added tokens' types are what transformers makes of them."""
    model, kind = state["model"], gguf.TokenType
    tokens = [f"[PAD{i}]" for i in range(size)]
    kinds = [kind.UNUSED] * size
    added = {token["content"]: token for token in state["added_tokens"]}
    ids = dict(model["vocab"]) | {content: token["id"] for content, token in added.items()}
    if (last := max(ids.values())) >= size:
        raise VocabularyError(f"has the id {last}, and the embedding has {size} rows.")
    for token, index in ids.items():
        tokens[index] = token
        if token in added:
            kinds[index] = kind.CONTROL if added[token]["special"] else kind.USER_DEFINED
        else:
            kinds[index] = kind.NORMAL
        if model["byte_fallback"] and token == _byte_token(token):
            kinds[index] = kind.BYTE
    if model["byte_fallback"]:
        if unknown in ids:
            kinds[ids[unknown]] = kind.UNKNOWN
        # llama.cpp looks for those of the user in the text as it is.
        tokens = [
            token.replace(_SPACE, " ") if kinds[i] == kind.USER_DEFINED else token
            for i, token in enumerate(tokens)
        ]
    return tokens, kinds


def _byte_token(token: str) -> str | None:
    """`<0x0A>` where `token` is how SentencePiece spells a byte."""
    try:
        return f"<0x{int(token[3:5], 16):02X}>"
    except ValueError:
        return None


def _scores(tokens: list[str], merges: list[tuple[str, ...]]) -> list[float]:
    """Minus the first rank at which a token is merged; what no merge makes comes last."""
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(merges):
        ranks.setdefault("".join(merge), rank)
    return [-float(ranks.get(token, len(merges))) for token in tokens]


def _steps(step: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The parts of a normalizer or pre-tokenizer, one after the other."""
    if step is None:
        return
    if step["type"] == "Sequence":
        for part in step.get("pretokenizers", step.get("normalizers", [])):
            yield from _steps(part)
    else:
        yield step


def _only(step: dict[str, Any] | None, known: tuple[str, ...], does: str) -> None:
    for part in _steps(step):
        if part["type"] not in known:
            raise VocabularyError(f"{does} text by {part['type']}, which llama.cpp does not.")


def _check_sentencepiece(state: dict[str, Any]) -> None:
    if not state["model"]["byte_fallback"]:
        raise VocabularyError("has no bytes to fall back on, which llama.cpp's llama needs.")
    _only(state["normalizer"], ("Prepend", "Replace"), "normalizes")
    _only(state["pre_tokenizer"], ("Metaspace", "Split"), "splits")
    for part in (*_steps(state["normalizer"]), *_steps(state["pre_tokenizer"])):
        pattern = part.get("pattern", {"String": " "})
        if part.get("content", _SPACE) != _SPACE or pattern != {"String": " "}:
            raise VocabularyError(f"has a step that llama.cpp does not: {part}.")


def _puts_space_first(state: dict[str, Any]) -> bool:
    steps = (*_steps(state["normalizer"]), *_steps(state["pre_tokenizer"]))
    return any(
        step["type"] == "Prepend" or step.get("prepend_scheme", "never") != "never"
        for step in steps
    )


def _split_name(state: dict[str, Any]) -> str:
    """`tokenizer.ggml.pre`: llama.cpp's name for how text is cut before the merges."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    *cuts, last = _steps(state["pre_tokenizer"])
    whole_words = bool(state["model"]["ignore_merges"])
    fitting: list[str] = []
    if last["type"] == "ByteLevel" and not last["add_prefix_space"]:
        if last["use_regex"]:
            fitting = {0: ["gpt-2"], 1: ["smollm"] if cuts and _digits(cuts[0]) else []}.get(
                len(cuts), []
            )
        elif len(cuts) == 1 and cuts[0]["type"] == "Split" and cuts[0]["behavior"] == "Isolated":
            pattern = cuts[0]["pattern"].get("Regex")
            fitting = [name for name in _SPLITS if GGUF_PRE_TOKENIZER_SPLITS[name] == pattern]
    for name in fitting:
        if (name in _WHOLE_WORDS) == whole_words:
            return name
    raise VocabularyError(
        f"cuts text before the merges in a way that has no name here: {state['pre_tokenizer']}, "
        f"ignore_merges = {whole_words}."
    )


def _digits(step: dict[str, Any]) -> bool:
    """Every digit is cut out."""
    if step["type"] == "Digits":
        return bool(step["individual_digits"])
    return step["type"] == "Split" and step["pattern"] == {"Regex": r"\p{N}"}
