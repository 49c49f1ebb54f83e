"""The items of our own: their schemas, their balance, their length, and that they are ours."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from quantdrift.behaviour.items import items
from quantdrift.data.rows import own_rows

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data"
NAMES = ("arc", "hellaswag", "winogrande")
FIELDS = {
    "arc": {"id", "question", "choices", "answerKey"},
    "hellaswag": {
        "ind",
        "activity_label",
        "ctx_a",
        "ctx_b",
        "ctx",
        "endings",
        "source_id",
        "split",
        "split_type",
        "label",
    },
    "winogrande": {"qID", "sentence", "option1", "option2", "answer"},
}
TEXTS = {
    "arc": lambda row: (
        row["question"]["stem"] if isinstance(row["question"], dict) else row["question"]
    ),
    "hellaswag": lambda row: row["ctx"],
    "winogrande": lambda row: row["sentence"],
}


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def runs(text: str, length: int) -> set[tuple[str, ...]]:
    """All runs of so many words."""
    found = words(text)
    return {tuple(found[n : n + length]) for n in range(len(found) - length + 1)}


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_fields_of_the_hub(name):
    rows = own_rows(name)
    assert len(rows) >= 48
    assert all(set(row) == FIELDS[name] for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_are_spread_evenly_over_the_places(name):
    found = items(name, own_rows(name), name)
    counts = Counter(item.answer for item in found)
    choices = {len(item.contexts) for item in found}
    assert choices == {2 if name == "winogrande" else 4}
    assert sorted(counts) == list(range(choices.pop()))
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_texts_are_unique(name):
    rows = own_rows(name)
    found = items(name, rows, name)
    assert len({item.id for item in found}) == len(found)
    assert all(item.id.startswith(f"own-{name}-") for item in found)
    assert len({TEXTS[name](row) for row in rows}) == len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_no_item_offers_one_choice_twice(name):
    for item in items(name, own_rows(name), name):
        pairs = zip(item.contexts, item.continuations, strict=True)
        assert len({" ".join(words(a + b)) for a, b in pairs}) == len(item.contexts), item.id


def test_hellaswag_keeps_the_hubs_types_and_repeats_its_context():
    for row in own_rows("hellaswag"):
        assert isinstance(row["ind"], int)
        assert isinstance(row["label"], str)
        assert row["ctx"] == f"{row['ctx_a']} {row['ctx_b']}".strip()
        # The harness capitalizes ctx_b, which would make a name in it small.
        assert row["ctx_b"] == row["ctx_b"].lower()


def test_winogrande_has_one_blank_and_pairs_that_differ_after_it():
    rows = own_rows("winogrande")
    assert all(row["sentence"].count("_") == 1 for row in rows)
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert first["qID"][:-2] == second["qID"][:-2]
        assert first["sentence"].split("_")[0] == second["sentence"].split("_")[0]
        assert first["option1"] == second["option1"]
        assert first["option2"] == second["option2"]
        assert {first["answer"], second["answer"]} == {"1", "2"}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_taken_from_the_real_data_sets(name):
    """No ten words in a row are theirs, in questions as in sentences and contexts."""
    if not REAL.is_dir():
        pytest.skip(f"the real data sets are not in {REAL}")
    files = sorted(REAL.glob(f"{name}_*.jsonl"))
    assert files
    theirs: set[tuple[str, ...]] = set()
    for file in files:
        for line in file.read_text(encoding="utf-8").split("\n"):
            if line:
                theirs |= runs(TEXTS[name](json.loads(line)), 10)
    for row in own_rows(name):
        assert not runs(TEXTS[name](row), 10) & theirs, row


@pytest.mark.demo_model
def test_prompts_are_long_enough_to_attend_to(demo_gguf):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(demo_gguf.parent, gguf_file=demo_gguf.name)
    for name in NAMES:
        for item in items(name, own_rows(name), name):
            length = len(tokenizer(item.prompt, add_special_tokens=False)["input_ids"])
            assert 25 <= length <= 46, item
