"""The answer in plain words: sentences made of findings, never of typed numbers."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from . import findings
from .findings import Verdict
from .names import Names, listed, role_label

_SAYS = {
    "quiet": (
        "leaves the weights' topology nearly alone",
        "leave the weights' topology nearly alone",
    ),
    "moves": ("moves it", "move it"),
    "reshapes": ("reshapes it", "reshape it"),
}
_ALONE = {
    "moves": ("moves the weights' topology", "move the weights' topology"),
    "reshapes": ("reshapes the weights' topology", "reshape the weights' topology"),
}


@dataclass(frozen=True)
class Point:
    """Statements, one a line, with the word under which a reader finds them."""

    label: str
    lines: tuple[str, ...]

    @staticmethod
    def of(label: str, lines: str | Iterable[str]) -> "Point":
        """From one line or several; empty lines say nothing and are left out."""
        lines = [lines] if isinstance(lines, str) else lines
        return Point(label, tuple(line for line in lines if line))


def percent(share: float) -> str:
    """A share with two significant digits."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:#.2g} %"


def times(ratio: float) -> str:
    """A ratio with two significant digits."""
    return f"{ratio:#.2g}".rstrip(".") + "\u00a0×"


def number(value: float, digits: int = 3) -> str:
    """A few significant digits, never as a power of ten where it can be read without."""
    return f"{float(f'{value:.{digits}g}'):.12g}"


def headline(found: list[Verdict]) -> str:
    """Which levels leave the topology alone, which move it, which reshape it."""
    clauses = []
    for verdict, levels in findings.by_verdict(found).items():
        if levels:
            says = _SAYS if clauses or verdict == "quiet" else _ALONE
            clauses.append(f"{listed(levels)} {says[verdict][len(levels) > 1]}")
    return "; ".join(clauses) + "."


def answer(
    drift: pd.DataFrame,
    errors: pd.DataFrame,
    blocks: pd.DataFrame,
    names: Names,
    found: list[Verdict],
) -> list[Point]:
    """The statements below the headline.

    Args:
        drift: the table `drift_table`.
        errors: the table `weight_error_table`.
        blocks: what `drift.by_block` gives.
        names: of the study.
        found: what `findings.verdicts` gives.
    """
    points = [
        Point.of("Smallest quiet format", _smallest(found, names)),
        Point.of("At equal bits", _equal_bits(drift, errors, names)),
        Point.of("Where it climbs", _climbs(drift, errors, names)),
        Point.of("How far", _how_far(drift, errors, names)),
        Point.of("Which blocks", _hurts(drift, blocks, names)),
    ]
    return [point for point in points if point.lines]


def _smallest(found: list[Verdict], names: Names) -> str:
    quiet = findings.by_verdict(found)["quiet"]
    if not quiet:
        return "No level of this study leaves every matrix alone by the rule below."
    rows = [one for one in found if one.level in quiet]
    size = {level: max(one.bits for one in rows if one.level == level) for level in quiet}
    level = min(quiet, key=lambda name: size[name])
    worst = max((one for one in rows if one.level == level), key=lambda one: one.worst_shift)
    where = f" of {names.label(worst.model)}" if len(names.models) > 1 else ""
    return (
        f"{level}, at {number(size[level], 4)} bits a weight with every stored bit counted. In its "
        f"worst matrix, a {role_label(worst.worst_role)}{where}, the average bar of the diagram "
        f"moves by {percent(worst.worst_shift)} of a mean bar."
    )


def _equal_bits(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> Iterable[str]:
    pairs: dict[tuple[str, str, str, float], list[findings.SameBits]] = {}
    for pair in findings.same_bits(drift, errors):
        pairs.setdefault((pair.model, pair.less, pair.more, pair.bits), []).append(pair)
    for (model, less, more, bits), its in pairs.items():
        cuts = [f"{percent(1 - p.drift_ratio)} in {role_label(p.role)}" for p in its]
        yield (
            f"{names.of_model(model)}{less.upper()} drifts less than {more.upper()} at the same "
            f"{number(bits, 4)} bits: by {listed(cuts)}."
        )


def _climbs(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> Iterable[str]:
    if len(names.levels) < 2:
        yield "With one level there is no climb to speak of."
        return
    for model in names.models:
        found = findings.knees(drift, errors)
        its = {role: at for (owner, role), at in found.items() if owner == model.id}
        ordered = [role for role in dict.fromkeys(errors["role"]) if role in its]
        past = [f"in {role_label(r)} from {(its[r] or '').upper()} on" for r in ordered if its[r]]
        never = [role_label(role) for role in ordered if not its[role]]
        text = f"Drift grows faster than the rounding error itself {listed(past)}" if past else ""
        if never:
            text += (
                f"; in {listed(never, 'or')} it never does"
                if past
                else (f"Drift never outgrows the rounding error in {listed(never, 'or')}")
            )
        yield f"{names.of_model(model.id)}{text}."


def _how_far(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> Iterable[str]:
    for model in names.models:
        rows = drift[drift["model"] == model.id].drop_duplicates(["scheme", "role"])
        shift = rows.set_index(["scheme", "role"])["bar_shift_mean"]
        types = errors[errors["model"] == model.id].set_index(["scheme", "role"])["type"]
        last, first = names.levels[-1], names.levels[0]
        parts = []
        for role in dict.fromkeys(rows["role"]):
            scheme = names.leading[last]
            text = f"{percent(shift[scheme, role])} in {role_label(role)}"
            its_type = types[scheme, role].upper()
            if its_type != last:
                text += f" (which gets {its_type} there{_pure(role, last, types, shift)})"
            parts.append(text)
        least = [f"{percent(shift[names.leading[first], r])}" for r in dict.fromkeys(rows["role"])]
        before = f", against {listed(least)} at {first}" if first != last else ""
        moves = f"At {last} the average bar moves by {listed(parts)}{before}."
        yield names.of_model(model.id) + moves


def _pure(role: str, level: str, types: pd.Series, shift: pd.Series) -> str:
    """What the role would drift with the level's own type, where the study measured that."""
    for (scheme, its_role), kind in types.items():  # type: ignore[misc]
        if its_role == role and kind.upper() == level:
            return f"; with {level} itself it moves by {percent(shift[scheme, role])}"
    return ""


def _hurts(drift: pd.DataFrame, blocks: pd.DataFrame, names: Names) -> Iterable[str]:
    ratios = findings.block_ratios(blocks, findings.readings(drift))
    value = ratios.set_index(["model", "role", "block"])["ratio"]
    worst, thirds = findings.worst_blocks(ratios), findings.third_means(ratios)
    for model in names.models:
        for role in dict.fromkeys(drift["role"]):
            key = (model.id, role)
            if key not in worst or len(value[key]) < 2:
                continue
            first, *others = worst[key]
            then = [f"{block} ({times(value[(*key, block)])})" for block in others]
            by_third = [f"{name} {times(ratio)}" for name, ratio in thirds[key].items()]
            yield (
                f"{names.of_model(model.id)}{role_label(role)} is hit hardest in block {first} "
                f"({times(value[(*key, first)])} the mean block), then in {listed(then)}; "
                f"by thirds: {', '.join(by_third)}."
            )
