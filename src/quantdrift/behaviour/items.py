"""Multiple-choice items as lm-evaluation-harness puts them to a model, without examples.

Rows of ARC, HellaSwag and WinoGrande come in, in the hub's schemas; of ARC, in that of its first
release, too. What a model is given, and what is scored after it, follows the harness (0.4.13, tasks
`arc_easy`, `arc_challenge`, `hellaswag`, `winogrande`) to the character: the numbers of others
were measured on just these texts.

WinoGrande is scored the other way round: its choices stand in the contexts, and what is scored is
the one rest of the sentence. So its prompt for attention is the context of the right choice.

Source: https://github.com/EleutherAI/lm-evaluation-harness, lm_eval/tasks.
"""

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

DELIMITER = " "
"""Between a context and what is scored after it (the harness's `target_delimiter`)."""
_Entry = TypeVar("_Entry")


@dataclass(frozen=True)
class Item:
    """One question with its choices."""

    id: str
    """The data set's own, where it has one; else the place in the source, from 0."""
    prompt: str
    """What attention is measured on: the context of the right choice."""
    contexts: tuple[str, ...]
    """Of each choice; all equal but for WinoGrande."""
    continuations: tuple[str, ...]
    """What is scored after the context, for each choice, delimiter included."""
    answer: int
    """Index of the right choice."""


def items(schema: str, rows: Iterable[Mapping[str, Any]], where: str) -> list[Item]:
    """The items of a data set, in its order.

    Args:
        schema: arc, hellaswag or winogrande.
        rows: with the fields of the schema; others are left alone.
        where: name of the source, for messages; they count rows from 1.

    Raises:
        ValueError: a row lacks a field or has what cannot be, two have one id, or there are none;
            the message names source, row and field.
    """
    if schema not in _SCHEMAS:
        raise ValueError(f"{where}: there is no schema {schema!r}, only {', '.join(_SCHEMAS)}.")
    found: list[Item] = []
    row_of: dict[str, int] = {}
    for number, row in enumerate(rows):
        try:
            item = _SCHEMAS[schema](row, number)
        except ValueError as error:
            raise ValueError(f"{where}, row {number + 1} (schema {schema}): {error}") from error
        if item.id in row_of:
            raise ValueError(
                f"{where}: rows {row_of[item.id] + 1} and {number + 1} have one id, {item.id!r}. "
                "An item must not count twice: take one of them out."
            )
        row_of[item.id] = number
        found.append(item)
    if not found:
        raise ValueError(f"{where} has no rows.")
    return found


def sample(items: Sequence[_Entry], count: int, seed: int) -> list[_Entry]:
    """So many of the items, drawn without replacement, in the order they had.

    Args:
        items: to draw from.
        count: 0, or as many as there are or more: all of them.
        seed: of the draw.
    """
    if count < 0:
        raise ValueError(f"count is {count}; it must be 0 (all) or more.")
    if count == 0 or count >= len(items):
        return list(items)
    drawn = np.random.default_rng(seed).choice(len(items), count, replace=False)
    return [items[place] for place in sorted(drawn.tolist())]


def _arc(row: Mapping[str, Any], number: int) -> Item:
    """Fields of the hub: id, question, choices {text, label}, answerKey.

    In the first release the question is {stem, choices [{text, label}]}.
    """
    question = _field(row, "question", (str, Mapping))
    if isinstance(question, Mapping):
        stem, choices = _field(question, "stem", (str,)), _field(question, "choices", (list,))
        entries = [_entry(choice) for choice in choices]
    else:
        stem, choices = question, _field(row, "choices", (Mapping,))
        texts, names = (_field(choices, name, (list,)) for name in ("text", "label"))
        if len(texts) != len(names):
            raise ValueError(f"`choices` has {len(texts)} texts and {len(names)} labels.")
        entries = [_entry({"text": t, "label": n}) for t, n in zip(texts, names, strict=True)]
    texts, labels = [text for text, _ in entries], [label for _, label in entries]
    if len(set(labels)) < len(labels):
        raise ValueError(f"`label` repeats: {labels}.")
    return _one_context(
        _id(row, number, "id"),
        f"Question: {stem}\nAnswer:",
        _several("choices", texts),
        _answer(row, "answerKey", labels),
    )


def _entry(choice: Any) -> tuple[str, str]:
    if not isinstance(choice, Mapping):
        raise ValueError(f"`choices` holds {reprlib.repr(choice)}, not an object.")
    return _field(choice, "text", (str,)), _label(choice, "label")


def _hellaswag(row: Mapping[str, Any], number: int) -> Item:
    """Fields: activity_label, ctx_a, ctx_b, endings, label; as names ind and source_id."""
    label, ctx_a, ctx_b = (_field(row, n, (str,)) for n in ("activity_label", "ctx_a", "ctx_b"))
    endings = _several("endings", _field(row, "endings", (list,)))
    return _one_context(
        _id(row, number, "source_id", "ind"),
        _without_markers(f"{label}: {ctx_a} {ctx_b.capitalize()}"),
        [_without_markers(ending) for ending in endings],
        _answer(row, "label", [str(place) for place in range(len(endings))]),
    )


def _without_markers(text: str) -> str:
    """The text without WikiHow's [header], [title], [step]: the harness's `preprocess`."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


def _winogrande(row: Mapping[str, Any], number: int) -> Item:
    """Fields: sentence, option1, option2, answer; as name qID, which the hub's copy lacks."""
    sentence, *options = (_field(row, n, (str,)) for n in ("sentence", "option1", "option2"))
    if sentence.count("_") != 1:
        raise ValueError(
            f"`sentence` has {sentence.count('_')} blanks (_), not one: {reprlib.repr(sentence)}."
        )
    before, _, rest = sentence.partition("_")
    if not rest.strip():
        raise ValueError(f"`sentence` ends with its blank, so nothing is scored: {sentence!r}.")
    contexts = tuple(before + option for option in options)
    answer = _answer(row, "answer", ["1", "2"])
    return Item(
        id=_id(row, number, "qID"),
        prompt=contexts[answer],
        contexts=contexts,
        continuations=(DELIMITER + rest.strip(),) * 2,
        answer=answer,
    )


_SCHEMAS: dict[str, Callable[[Mapping[str, Any], int], Item]] = {
    "arc": _arc,
    "hellaswag": _hellaswag,
    "winogrande": _winogrande,
}


def _one_context(id: str, context: str, choices: Sequence[str], answer: int) -> Item:
    return Item(
        id=id,
        prompt=context,
        contexts=(context,) * len(choices),
        continuations=tuple(DELIMITER + choice for choice in choices),
        answer=answer,
    )


def _field(row: Mapping[str, Any], name: str, kinds: tuple[type, ...]) -> Any:
    if name not in row:
        has = ", ".join(f"`{key}`" for key in row) or "nothing"
        raise ValueError(f"`{name}` is missing; there is {has}.")
    value = row[name]
    if not isinstance(value, kinds) or isinstance(value, bool):
        wanted = " or ".join(_KINDS[kind] for kind in kinds)
        raise ValueError(f"`{name}` is {reprlib.repr(value)}, not {wanted}.")
    return value


_KINDS = {str: "a string", int: "a number", list: "a list", Mapping: "an object"}


def _several(name: str, texts: list[Any]) -> list[str]:
    if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"`{name}` is {reprlib.repr(texts)}, not two strings or more.")
    return texts


def _label(row: Mapping[str, Any], name: str) -> str:
    """A label, which some copies hold as a number."""
    return str(_field(row, name, (str, int)))


def _answer(row: Mapping[str, Any], name: str, labels: Sequence[str]) -> int:
    if row.get(name, 0) in ("", None):
        raise ValueError(
            f"`{name}` is empty: this split keeps its answers hidden (as the test splits of "
            "HellaSwag and WinoGrande do). Take the validation split."
        )
    label = _label(row, name)
    if label not in labels:
        raise ValueError(f"`{name}` is {label!r}, and the choices are {', '.join(labels)}.")
    return labels.index(label)


def _id(row: Mapping[str, Any], number: int, *names: str) -> str:
    if any(row.get(name) in (None, "") for name in names):
        return str(number)
    return "-".join(_label(row, name) for name in names)
