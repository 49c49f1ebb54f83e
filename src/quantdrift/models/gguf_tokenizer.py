"""The tokenizer of a GGUF file as the files that transformers' AutoTokenizer reads."""

import json
from pathlib import Path
from typing import Any

# Pre-tokenizers (tokenizer.ggml.pre) that llama.cpp cuts by GPT-2's pattern: that is what
# transformers takes for any name that it does not know.
_GPT2_SPLIT = ("gpt-2", "phi-2", "mpt", "olmo")
# And those that cut out every digit first, which transformers does not know.
_DIGITS_THEN_GPT2_SPLIT = (
    "smollm",
    "starcoder",
    "refact",
    "command-r",
    "codeshell",
    "exaone",
    "minerva-7b",
)
# Those under which llama.cpp takes a whole word that is in the vocabulary as it is, and puts bos
# first where the file does not say.
_WHOLE_WORDS = (
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "tekken",
)


def write_tokenizer(source: Path, directory: Path) -> str | None:
    """Write tokenizer.json and tokenizer_config.json; or say why that is not possible.

    The ids are those of the file's own list of tokens, and so are bos, eos and the other special
    tokens. A vocabulary that would be cut otherwise than llama.cpp cuts it is not written: ids
    that are wrong here and there would go unnoticed.

    Args:
        source: the GGUF file.
        directory: where a checkpoint is made; its weights are useful without a tokenizer.

    Returns:
        None, or what is in the way.
    """
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        convert_gguf_tokenizer,
        get_gguf_tokenizer,
    )

    try:
        architecture, vocabulary, about = get_gguf_tokenizer(str(source))
        if vocabulary["tokenizer_type"] == "gpt2" and (
            problem := _unknown_split(str(vocabulary.get("pre_tokenizer_type")))
        ):
            return problem
        converted, _ = convert_gguf_tokenizer(architecture, vocabulary)
        backend = _as_llama_cpp(converted, vocabulary)
        about.setdefault("add_bos_token", vocabulary.get("pre_tokenizer_type") in _WHOLE_WORDS)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **about)
    except Exception as error:  # that is what the tokenizers library raises
        return f"transformers cannot convert it ({error!r})"
    if problem := _other_ids(tokenizer, vocabulary["tokens"]):
        return problem
    tokenizer.save_pretrained(directory)
    return None


def _unknown_split(name: str) -> str | None:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    if name in (*_GPT2_SPLIT, *_DIGITS_THEN_GPT2_SPLIT, *GGUF_PRE_TOKENIZER_SPLITS):
        return None
    return f"how text is split before the merges (tokenizer.ggml.pre = {name!r}) is not known here"


def _as_llama_cpp(converted: Any, vocabulary: dict[str, Any]) -> Any:
    """What transformers leaves to the tokenizer of each model, and llama.cpp knows by its name."""
    from tokenizers import Regex, Tokenizer, pre_tokenizers

    state = json.loads(converted.to_str())
    # Special tokens of the class that transformers builds, and not of the file.
    n_tokens = len(vocabulary["tokens"])
    state["added_tokens"] = [about for about in state["added_tokens"] if about["id"] < n_tokens]
    split = vocabulary.get("pre_tokenizer_type")
    if split in _WHOLE_WORDS:
        state["model"]["ignore_merges"] = True
    backend = Tokenizer.from_str(json.dumps(state))
    if split in _DIGITS_THEN_GPT2_SPLIT:
        digits = pre_tokenizers.Split(Regex(r"\p{N}"), behavior="isolated")
        rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, rest])
    return backend


def _other_ids(tokenizer: Any, tokens: list[str]) -> str | None:
    """Where the converted vocabulary departs from the file's own list."""
    if len(tokenizer) != len(tokens):
        return f"converted it has {len(tokenizer)} tokens, where the file lists {len(tokens)}"
    for name in ("bos", "eos", "unk", "pad"):
        token, index = getattr(tokenizer, f"{name}_token"), getattr(tokenizer, f"{name}_token_id")
        if token is not None and tokens[index] != token:
            return (
                f"its {name} token {token!r} has id {index}, which the file gives {tokens[index]!r}"
            )
    return None
