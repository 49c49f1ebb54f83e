"""Chapter of the page on text: perplexity, and how far the next-token distribution moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .answer import Point, number, percent
from .chapter import Chapter, HtmlTable
from .names import Names

_LEAD = (
    "The same text is read by the base and by every quantized model. Perplexity asks how well the "
    "token that follows was foreseen; KL(base ‖ quantized) asks how far the whole distribution of "
    "the next token moved, whether that helped or not. Both are means over the same tokens, so "
    "differences are paired."
)


@dataclass(frozen=True)
class ProtocolFacts:
    """What the page says about a protocol."""

    id: str
    label: str
    license: str
    is_ours: bool
    """The text was written for this project: no published number compares."""


@dataclass(frozen=True)
class TextResults:
    """All that the chapter is made of."""

    table: pd.DataFrame
    """`perplexity_table`, in the study's order."""
    protocols: Sequence[ProtocolFacts]
    figures: list[dict[str, Any]]

    @property
    def labels(self) -> Mapping[str, str]:
        """Protocol id to label."""
        return {one.id: one.label for one in self.protocols}


def answer(results: TextResults, names: Names) -> Point:
    """What reading costs at each level that leads, on the study's first text."""
    first = results.protocols[0]
    lines = []
    for model in names.models:
        here = results.table["model"].eq(model.id) & results.table["protocol"].eq(first.id)
        rows = results.table[here & results.table["scheme"].isin(names.leading.values())]
        said = [_said(row) for row in rows.to_dict("records")]
        if said:
            lines.append(f"{names.of_model(model.id)}on {first.label}: {'; '.join(said)}.")
    return Point.of("Text", lines)


def divergences(results: TextResults, model: str) -> dict[str, float]:
    """KL of each scheme of a model on the study's first text."""
    table = results.table
    rows = table[(table["model"] == model) & (table["protocol"] == results.protocols[0].id)]
    return dict(zip(rows["scheme"], rows["kl"].astype(float), strict=True))


def _said(row: Mapping[Any, Any]) -> str:
    if row["status"] == "broken":
        return f"{row['level']} is broken (perplexity × {number(np.exp(row['log_ratio']), 2)})"
    rise = float(np.expm1(row["log_ratio"]))
    error = row["log_ratio_se"]
    spread = "" if pd.isna(error) else f" ± {percent(float(np.exp(row['log_ratio']) * error))}"
    sign = "+" if rise >= 0 else "−"
    return f"{row['level']} perplexity {sign}{percent(abs(rise))}{spread}, KL {number(row['kl'])}"


def chapter(results: TextResults, names: Names) -> Chapter:
    """The chapter.

    Args:
        results: of this chapter.
        names: of the study.
    """
    ours = [one.label for one in results.protocols if one.is_ours]
    notes = [f"{text}: written for this project, so no published number compares." for text in ours]
    floor = results.table["kl_floor"].max()
    notes.append(f"The base held against itself has a KL of {number(floor)}: the noise floor.")
    return Chapter(
        id="text",
        title="Perplexity and divergence",
        lead=_LEAD,
        figures=results.figures,
        tables=[every_scheme(results, names)],
        notes=notes,
    )


def every_scheme(results: TextResults, names: Names) -> HtmlTable:
    """All numbers: each scheme and text."""
    many = len(names.models) > 1
    rows = [
        [
            *([names.label(row["model"])] if many else []),
            f"{row['level']} {row['variant']}",
            results.labels[row["protocol"]],
            _with_error(row["perplexity"], row["perplexity_se"]),
            _with_error(np.exp(row["log_ratio"]), np.exp(row["log_ratio"]) * _nan(row)),
            _with_error(row["kl"], row["kl_se"]),
            f"{number(row['kl_median'])} / {number(row['kl_99'])} / {number(row['kl_max'])}",
            _with_error(row["same_top"], row["same_top_se"]),
            number(row["dp_rms"]),
            str(row["n_tokens"]),
            row["status"],
        ]
        for row in names.described(results.table).to_dict("records")
    ]
    head = ["Scheme", "Text", "Perplexity", "Ratio to base", "KL", "KL median / 99 % / max"]
    head += ["Same top token", "RMS Δp", "Tokens", "Status"]
    return HtmlTable(
        caption=(
            "Every scheme: mean over tokens ± standard error over windows; the ratio's is paired. "
            "KL in nats; RMS Δp: of the probability of the token that follows. Broken: more than "
            "ten times the base's perplexity."
        ),
        head=[*(["Model"] if many else []), *head],
        rows=rows,
        text_columns=(0, 1, 2) if many else (0, 1),
        summary="All numbers by scheme and text",
    )


def _nan(row: Mapping[Any, Any]) -> float:
    error = row["log_ratio_se"]
    return float("nan") if pd.isna(error) else float(error)


def _with_error(value: float, error: float | None) -> str:
    if error is None or pd.isna(error):
        return number(value)
    return f"{number(value, 4)} ± {float(f'{error:.2g}'):g}"
