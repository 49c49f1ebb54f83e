"""Chapter 2 of the page: whether the last token still attends to what it did."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from .agreement_answer import whose_items
from .agreement_checks import claims
from .agreement_grid import is_compared, our_tables, paper_table
from .chapter import Chapter, HtmlTable
from .names import BOS, Names
from .published import Published

_LEAD = (
    "The last token of a prompt looks back. In every block its attention, averaged over heads, "
    "ranks the tokens before it; special tokens do not count. Agreement is how much of the base's "
    "ranking a quantized model keeps: the same first position (top-1), and the overlap of the "
    "first {top} (intersection over union, IoU)."
)


@dataclass(frozen=True)
class Agreement:
    """All that the chapter is made of."""

    table: pd.DataFrame
    """`agreement_table`, in the study's order."""
    blocks: pd.DataFrame
    """`agreement_blocks`."""
    grid: pd.DataFrame
    """`topoquant_table_1`, in the study's order."""
    published: Published
    figures: list[dict[str, Any]]
    """Specifications that `figure.save` wrote, in the order they are shown."""


def chapter(results: Agreement, drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> Chapter:
    """The chapter.

    Args:
        results: of this chapter.
        drift: `drift_table`.
        errors: `weight_error_table`.
        names: of the study.
    """
    whose = whose_items(names)
    notes = [whose] if whose else []
    if not is_compared(results.grid):
        notes.append(
            "No model and data set of this study are the paper's, so its numbers stand apart."
        )
    return Chapter(
        id="attention",
        title="Attention agreement",
        lead=_LEAD.format(top=names.top),
        figures=results.figures,
        claims=list(claims(results.table, drift, errors, names)),
        tables=[
            *our_tables(results.grid, names, results.published),
            every_scheme(results.table, names),
            paper_table(results.published),
        ],
        notes=notes,
    )


def every_scheme(table: pd.DataFrame, names: Names) -> HtmlTable:
    """All numbers: each scheme, data set and BOS policy."""
    many = len(names.models) > 1
    rows = [
        [
            *([names.label(row["model"])] if many else []),
            f"{row['level']} {row['variant']}",
            names.dataset_label(row["dataset"]),
            BOS[row["bos"]],
            f"{row['top1']:.3f} ± {row['top1_se']:.3f}",
            f"{row['iou']:.3f} ± {row['iou_se']:.3f}",
            f"{row['iou_tokens']:.3f}",
            f"{row['chance_top1']:.3f} / {row['chance_iou']:.3f}",
            str(row["n_items"]),
        ]
        for row in table.to_dict("records")
    ]
    head = ["Scheme", "Data set", "Token", *names.metrics.values(), "IoU of words"]
    head += ["Chance, top-1 / IoU", "Items"]
    return HtmlTable(
        caption=(
            "Every scheme: mean over blocks and items ± bootstrap standard error over items. IoU "
            "of words compares token ids instead of positions, so that a word at two places is one."
        ),
        head=[*(["Model"] if many else []), *head],
        rows=rows,
        text_columns=(0, 1, 2, 3) if many else (0, 1, 2),
        summary="All numbers by scheme and data set",
    )
