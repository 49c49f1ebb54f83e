"""Items against lm-evaluation-harness, on rows made up here and on the real files where they lie.

Compared once, on 2026-12-01, with lm-eval 0.4.13 as PyPI has it: its own `ConfigurableTask`, set up
from its YAML files of arc_easy, arc_challenge, hellaswag and winogrande, built the requests (zero
examples, no chat template) of all 4,417 ARC items (test and validation), 1,000 HellaSwag and 1,267
WinoGrande items of shared/data, put into the hub's schema, and of our own 144. Every context, every
continuation and every answer was the same, to the character.

What runs here: the strings written out below, and the harness's functions side by side with ours
where `lm_eval` is installed.
"""

import bz2
import importlib
import json
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdrift.behaviour.items import Item, items, sample
from quantdrift.data.rows import file_rows, own_rows

REAL = Path(__file__).parents[2].parent / "shared" / "data"

HUB_ARC = {
    "id": "q1",
    "question": "Which one floats?",
    "choices": {"text": ["iron", "cork", "lead"], "label": ["1", "2", "3"]},
    "answerKey": "2",
}
FIRST_ARC = {
    "id": "q1",
    "question": {
        "stem": "Which one floats?",
        "choices": [
            {"text": "iron", "label": 1},
            {"text": "cork", "label": 2},
            {"text": "lead", "label": 3},
        ],
    },
    "answerKey": 2,
}
HELLASWAG = {
    "ind": 7,
    "activity_label": "Home",
    "ctx_a": "[header] How to sleep [title] Lie down. [step] Close  your eyes.",
    "ctx_b": "then YOU",
    "endings": [" sleep. [title] Wake up. ", "[step] run.", "eat [soup] now.", "sing."],
    "source_id": "wikihow~12",
    "label": "0",
}
WINOGRANDE = {
    "sentence": "The cup fell off the shelf, but the _ did not break .",
    "option1": "shelf",
    "option2": "cup",
    "answer": "2",
}
ROW = {"arc": HUB_ARC, "hellaswag": HELLASWAG, "winogrande": WINOGRANDE}


@pytest.mark.parametrize("row", [HUB_ARC, FIRST_ARC])
def test_both_shapes_of_arc_give_the_same_item(row):
    context = "Question: Which one floats?\nAnswer:"
    assert items("arc", [row], "here") == [
        Item("q1", context, (context,) * 3, (" iron", " cork", " lead"), 1)
    ]


def test_hellaswag_is_cleaned_as_the_harness_does():
    # What stood behind a marker keeps its space: the harness strips before it takes markers away.
    context = "Home: How to sleep. Lie down. Close your eyes. Then you"
    assert items("hellaswag", [HELLASWAG], "here") == [
        Item(
            "wikihow~12-7",
            context,
            (context,) * 4,
            (" sleep.. Wake up.", "  run.", " eat now.", " sing."),
            0,
        )
    ]


def test_winogrande_is_scored_by_the_rest_of_its_sentence():
    before = "The cup fell off the shelf, but the "
    assert items("winogrande", [WINOGRANDE], "here") == [
        Item(
            "0",
            before + "cup",
            (before + "shelf", before + "cup"),
            (" did not break .",) * 2,
            1,
        )
    ]
    (named,) = items("winogrande", [WINOGRANDE | {"qID": "abc-1"}], "here")
    assert named.id == "abc-1"


@pytest.mark.parametrize("schema", ["arc", "hellaswag", "winogrande"])
def test_the_harness_builds_the_same_of_our_own_items(schema):
    rows = own_rows(schema)
    theirs = _harness(schema)
    for row, item in zip(rows, items(schema, rows, schema), strict=True):
        contexts, continuations, answer = theirs(row)
        assert list(item.contexts) == contexts
        assert list(item.continuations) == continuations
        assert item.answer == answer


def _harness(schema):
    """What lm-eval makes of a row in the hub's schema, by its own functions and templates."""
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if schema == "arc":
            import lm_eval
            import yaml

            apply = importlib.import_module("lm_eval.utils").apply_template
            folder = Path(str(lm_eval.__file__)).parent / "tasks/arc"
            task = yaml.safe_load((folder / "arc_easy.yaml").read_text())

            def arc(row):
                texts = row["choices"]["text"]
                assert apply(task["doc_to_choice"], row) == str(texts)
                context = apply(task["doc_to_text"], row)
                answer = int(apply(task["doc_to_target"], row))
                return [context] * len(texts), [f" {text}" for text in texts], answer

            return arc
        if schema == "hellaswag":
            module = importlib.import_module("lm_eval.tasks.hellaswag.utils")

            class Rows(list):
                def map(self, make):
                    return [make(row) for row in self]

            def hellaswag(row):
                (made,) = module.process_docs(Rows([row]))
                contexts = [made["query"]] * len(made["choices"])
                return contexts, [f" {choice}" for choice in made["choices"]], made["gold"]

            return hellaswag
        module = importlib.import_module("lm_eval.tasks.winogrande.preprocess_winogrande")
        return lambda row: (
            module.doc_to_choice(row),
            [f" {module.doc_to_target(row)}"] * 2,
            module.doc_to_text(row),
        )


@pytest.mark.parametrize(
    ("name", "schema", "count"),
    [
        ("arc_challenge_test", "arc", 1172),
        ("arc_challenge_validation", "arc", 299),
        ("arc_easy_test", "arc", 2376),
        ("arc_easy_validation", "arc", 570),
        ("hellaswag_val_1000", "hellaswag", 1000),
        ("winogrande_dev", "winogrande", 1267),
    ],
)
def test_real_files_are_read_whole(name, schema, count, tmp_path):
    file = REAL / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"there is no {file}")
    rows = file_rows(file)
    found = items(schema, rows, name)
    assert len(found) == count
    assert all(item.prompt == item.contexts[item.answer] for item in found)
    pq.write_table(pa.Table.from_pylist([_as_hub(row) for row in rows]), tmp_path / "hub.parquet")
    assert items(schema, file_rows(tmp_path / "hub.parquet"), name) == found


def _as_hub(row):
    """The row as the hub's Parquet files have it."""
    question = row.get("question")
    if question is not None:
        choices = question["choices"]
        row = row | {
            "question": question["stem"],
            "choices": {name: [choice[name] for choice in choices] for name in ("text", "label")},
        }
    return row | {"label": str(row["label"])} if "label" in row else row


def test_cleaned_hellaswag_equals_a_clean_text_that_others_made():
    """All of the validation split as text, six lines an item: the last four are its endings."""
    file = REAL / "hellaswag_val_full.txt.bz2"
    if not file.exists():
        pytest.skip(f"there is no {file}")
    lines = bz2.decompress(file.read_bytes()).decode().split("\n")
    clean = {tuple(map(str.strip, lines[n + 2 : n + 6])): lines[n] for n in range(0, 60252, 6)}
    for item in items("hellaswag", file_rows(REAL / "hellaswag_val_1000.jsonl"), "subset"):
        context = clean[tuple(map(str.strip, item.continuations))]
        assert item.prompt.strip().lower() == context.strip().lower()


def _without(schema, name):
    return {key: value for key, value in ROW[schema].items() if key != name}


@pytest.mark.parametrize(
    ("schema", "row", "message"),
    [
        ("arc", _without("arc", "question"), r"`question` is missing; there is `id`, `choices`"),
        ("arc", _without("arc", "answerKey"), r"`answerKey` is missing"),
        ("arc", HUB_ARC | {"question": 5}, r"`question` is 5, not a string or an object"),
        ("arc", HUB_ARC | {"question": {"stem": "a"}}, r"`choices` is missing; there is `stem`"),
        ("arc", HUB_ARC | {"question": {"choices": []}}, r"`stem` is missing"),
        ("arc", HUB_ARC | {"choices": ["a"]}, r"`choices` is \['a'\], not an object"),
        ("arc", HUB_ARC | {"choices": {"text": ["a"]}}, r"`label` is missing"),
        (
            "arc",
            HUB_ARC | {"choices": {"text": ["a"], "label": ["1", "2"]}},
            r"`choices` has 1 texts and 2 labels",
        ),
        (
            "arc",
            HUB_ARC | {"choices": {"text": ["a"], "label": ["2"]}},
            r"`choices` is \['a'\], not two strings or more",
        ),
        (
            "arc",
            HUB_ARC | {"choices": {"text": ["a", None], "label": ["1", "2"]}},
            r"`text` is None, not a string",
        ),
        (
            "arc",
            HUB_ARC | {"choices": {"text": ["a", "b"], "label": ["2", "2"]}},
            r"`label` repeats",
        ),
        (
            "arc",
            FIRST_ARC | {"question": {"stem": "a", "choices": ["b"]}},
            r"`choices` holds 'b', not an object",
        ),
        ("arc", HUB_ARC | {"answerKey": "C"}, r"`answerKey` is 'C', and the choices are 1, 2, 3"),
        ("arc", HUB_ARC | {"answerKey": True}, r"`answerKey` is True, not a string or a number"),
        ("arc", HUB_ARC | {"answerKey": ""}, r"`answerKey` is empty: .* validation split"),
        ("hellaswag", _without("hellaswag", "ctx_b"), r"`ctx_b` is missing"),
        ("hellaswag", HELLASWAG | {"endings": "abcd"}, r"`endings` is 'abcd', not a list"),
        ("hellaswag", HELLASWAG | {"endings": ["a", 1]}, r"`endings` is .*not two strings"),
        ("hellaswag", HELLASWAG | {"label": 4}, r"`label` is '4', and the choices are 0, 1, 2, 3"),
        ("hellaswag", HELLASWAG | {"label": ""}, r"`label` is empty: .* validation split"),
        ("hellaswag", HELLASWAG | {"label": None}, r"`label` is empty: .* validation split"),
        ("winogrande", _without("winogrande", "option2"), r"`option2` is missing"),
        ("winogrande", WINOGRANDE | {"sentence": "No."}, r"`sentence` has 0 blanks .*'No\.'"),
        ("winogrande", WINOGRANDE | {"sentence": "_ or _."}, r"`sentence` has 2 blanks"),
        ("winogrande", WINOGRANDE | {"sentence": "It was _ "}, r"`sentence` ends with its blank"),
        ("winogrande", WINOGRANDE | {"answer": "3"}, r"`answer` is '3', and the choices are 1, 2"),
        ("winogrande", WINOGRANDE | {"answer": ""}, r"`answer` is empty: .* validation split"),
    ],
)
def test_what_cannot_be_is_named_with_source_and_row(schema, row, message):
    good = ROW[schema] | {"id": "other", "ind": 99}
    with pytest.raises(ValueError, match=rf"^some/file, row 2 \(schema {schema}\): {message}"):
        items(schema, [good, row], "some/file")


def test_a_repeated_item_an_empty_source_and_an_unknown_schema_are_refused():
    with pytest.raises(ValueError, match="here: rows 1 and 2 have one id, 'q1'"):
        items("arc", [HUB_ARC, FIRST_ARC], "here")
    with pytest.raises(ValueError, match="here has no rows"):
        items("arc", [], "here")
    with pytest.raises(ValueError, match="no schema 'boolq', only arc, hellaswag, winogrande"):
        items("boolq", [HUB_ARC], "here")


@given(st.lists(st.integers()), st.integers(0, 40), st.integers(0, 2**32))
def test_a_sample_is_some_of_the_items_in_their_order(values, count, seed):
    entries = list(enumerate(values))
    drawn = sample(entries, count, seed)
    assert drawn == sample(entries, count, seed)
    assert len(drawn) == (len(entries) if count == 0 else min(count, len(entries)))
    assert drawn == sorted(set(drawn))  # the places, first in each pair, rise
    assert set(drawn) <= set(entries)


def test_other_seeds_draw_other_samples_and_every_item_can_be_drawn():
    draws = [tuple(sample(range(10), 3, seed)) for seed in range(200)]
    assert len(set(draws)) > 60
    counts = [sum(entry in draw for draw in draws) for entry in range(10)]
    assert min(counts) > 30  # 60 are expected of each, standard deviation 6.5


def test_a_negative_count_is_refused():
    with pytest.raises(ValueError, match="count is -1"):
        sample([1, 2], -1, 0)


def test_rows_as_json_and_as_parquet_are_the_same_items(tmp_path):
    for schema in ROW:
        rows = own_rows(schema)
        file = tmp_path / f"{schema}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        pq.write_table(pa.Table.from_pylist(rows), file.with_suffix(".parquet"))
        for copy in (file, file.with_suffix(".parquet")):
            assert items(schema, file_rows(copy), "copy") == items(schema, rows, "ours")
