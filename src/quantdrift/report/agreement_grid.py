"""TopoQuant's Table I: attention agreement by level, model and data set, ours beside theirs.

A cell is *comparable* where model, data set and size of the sets are the paper's; the BOS policy
the paper implies (special tokens are masked, so there are some) is `with`, or the first measured.
It is *reproduced* if it differs by no more than `SIGMAS` standard errors of a difference of two
such samples, plus half of the last digit printed. The paper prints no errors, so its own are taken
to be as large as ours. Where those errors leave more room than `WIDEST`, lying within it shows
nothing, and the cell has *too few items*.
"""

from typing import Any

import numpy as np
import pandas as pd

from .agreement_summary import policies
from .answer import number
from .chapter import HtmlTable
from .names import BOS, Names, metric_labels
from .published import LOST, Published
from .written import markdown_lines

SIGMAS = 2.0
WIDEST = 0.05
"""A test that leaves more room than this can tell few levels from their neighbours."""
TOO_FEW = "too few items"
_KEY = ["bos", "metric", "level", "model", "dataset"]
CHANCE = "chance"


def grid_rows(table: pd.DataFrame, published: Published, names: Names) -> pd.DataFrame:
    """The rows of `topoquant_table_1`: ours, then what the paper prints of models we lack.

    Args:
        table: `agreement_table`.
        published: the paper's grid.
        names: of the study.
    """
    ours = _ours(table, names)
    schemas = {one.id: one.schema for one in names.datasets}
    foreign = {one.id for one in names.datasets if one.is_ours}
    cells = published.cells.rename(columns={"published": "printed"}).assign(is_printed=True)
    ours["schema"] = ours["dataset"].map(schemas)
    both = ours.merge(cells, how="left", on=["metric", "level", "model", "schema"])
    comparable = (
        both["model"].isin(list(published.models))
        & both["schema"].isin(list(published.datasets))
        & ~both["dataset"].isin(list(foreign))
        & (both["bos"] == policies(table)[0])
        & ((both["metric"] == "top1") | (names.top == published.top))
    )
    both["published"] = both["printed"].where(comparable)
    both["difference"] = both["ours"] - both["published"]
    both["status"] = _status(both, comparable, published)
    taken = set(map(tuple, both.loc[comparable, ["metric", "model", "schema"]].to_numpy()))
    rows = pd.concat([both, _theirs(cells, taken, published, policies(table)[0])])
    kept = [*_KEY, "ours", "ours_se", "n_items", "chance", "published", "difference", "status"]
    return rows[kept].astype({"n_items": "Int64"}).reset_index(drop=True)


def _ours(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    """One row a metric and cell, of the scheme that speaks for its level; in the paper's order."""
    leading = table[table["scheme"].isin(list(names.leading.values()))]
    cells = leading[["bos", "level", "model", "dataset"]]
    long = [
        cells.assign(
            metric=metric,
            ours=leading[metric],
            ours_se=leading[f"{metric}_se"],
            n_items=leading["n_items"],
            chance=leading[f"chance_{metric}"],
        )
        for metric in names.metrics
    ]
    return in_order(pd.concat(long, ignore_index=True), names)


def _status(rows: pd.DataFrame, comparable: pd.Series, published: Published) -> pd.Series:
    sampling = SIGMAS * np.sqrt(2) * rows["ours_se"]
    near = rows["difference"].abs() <= sampling + published.last_digit
    status = pd.Series("differs", index=rows.index).where(~near, "reproduced")
    status = status.where(~(near & (sampling > WIDEST)), TOO_FEW)
    status = status.where(rows["printed"].notna(), LOST)
    status = status.where(rows["is_printed"].notna(), "not printed")
    return status.where(comparable, "not comparable")


def _theirs(
    cells: pd.DataFrame, taken: set[tuple[Any, ...]], published: Published, bos: str
) -> pd.DataFrame:
    """Printed cells with no counterpart of ours."""
    index = zip(cells["metric"], cells["model"], cells["schema"], strict=True)
    rest = cells[[key not in taken for key in index]]
    return rest.assign(
        bos=bos,
        dataset=rest["schema"].map(published.datasets),
        ours=np.nan,
        ours_se=np.nan,
        n_items=np.nan,
        chance=np.nan,
        difference=np.nan,
        published=rest["printed"],
        status=np.where(rest["printed"].isna(), LOST, "not comparable"),
    )


def in_order(grid: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Rows read from a file, which sorts them by key, in the order of study and paper."""
    orders = {
        "bos": list(BOS),
        "metric": list(names.metrics),
        "level": names.levels,
        "model": [model.id for model in names.models],
        "dataset": [one.id for one in names.datasets],
    }
    ranks = {
        name: grid[name].map({value: at for at, value in enumerate(order)}).fillna(len(order))
        for name, order in orders.items()
    }
    by = pd.DataFrame(ranks).sort_values(list(ranks), kind="stable").index
    return grid.loc[by].reset_index(drop=True)


def our_cells(grid: pd.DataFrame) -> pd.DataFrame:
    """The cells of this study."""
    return grid[grid["ours"].notna()]


def is_compared(grid: pd.DataFrame) -> bool:
    """Whether any cell of this study has a counterpart in the paper's grid."""
    return bool((our_cells(grid)["status"] != "not comparable").any())


def our_tables(grid: pd.DataFrame, names: Names, published: Published) -> list[HtmlTable]:
    """Our grid in the paper's layout, one for each BOS policy."""
    ours = our_cells(grid)
    n_bos = ours["bos"].nunique()
    compared = (
        f" Beside it what the paper prints ({published.source}), and whether we reproduce it: "
        f"within {number(SIGMAS)} standard errors of a difference, and the last digit printed."
        if is_compared(grid)
        else ""
    )
    found = []
    for at, bos in enumerate(dict.fromkeys(ours["bos"])):
        rows = ours[ours["bos"] == bos]
        where = f", {BOS[str(bos)]}" if n_bos > 1 else ""
        found.append(
            HtmlTable(
                caption=(
                    f"Attention agreement in the layout of TopoQuant's Table I{where}: mean over "
                    f"blocks and items ± bootstrap standard error over items.{compared}"
                ),
                head=["Metric", "Level", *_heads(rows, names)],
                rows=_lines(rows, names),
                text_columns=(0, 1),
                summary=f"The same grid {BOS[str(bos)]}" if at else "",
            )
        )
    return found


def _heads(rows: pd.DataFrame, names: Names) -> list[str]:
    pairs = dict.fromkeys(zip(rows["model"], rows["dataset"], strict=True))
    return [
        " ".join(
            [
                *([names.label(model)] if rows["model"].nunique() > 1 else []),
                names.dataset_label(dataset),
            ]
        )
        for model, dataset in pairs
    ]


def _lines(rows: pd.DataFrame, names: Names) -> list[list[str]]:
    pairs = list(dict.fromkeys(zip(rows["model"], rows["dataset"], strict=True)))
    lines = []
    for metric, label in names.metrics.items():
        its = rows[rows["metric"] == metric]
        cells = {(r["level"], r["model"], r["dataset"]): r for r in its.to_dict("records")}
        lines += [
            [label, level, *(_cell(cells.get((level, *pair))) for pair in pairs)]
            for level in names.levels
            if level in set(its["level"])
        ]
        chance = its.groupby(["model", "dataset"])["chance"].mean()
        lines.append([label, CHANCE, *(f"{chance[pair]:.3f}" for pair in pairs)])
    counts = rows.groupby(["model", "dataset"])["n_items"].max()
    lines.append(["Items", "all", *(f"{counts[pair]:.0f}" for pair in pairs)])
    return lines


def _cell(cell: dict[Any, Any] | None) -> str:
    if cell is None:
        return "–"
    text = f"{cell['ours']:.3f} ± {cell['ours_se']:.3f}"
    status = cell["status"]
    if status == "not comparable":
        return text
    if status in (LOST, "not printed"):
        return f"{text} · paper {status}"
    told = f"differs by {cell['difference']:+.3f}" if status == "differs" else status
    return f"{text} · paper {cell['published']:g} · {told}"


def paper_table(published: Published) -> HtmlTable:
    """The grid as the paper prints it."""
    cells = published.cells
    exceeds, both = top1_exceeds(
        cells.pivot(index=["level", "model", "schema"], columns="metric", values="published")
    )
    labels = metric_labels(published.top)
    rows = []
    for (metric, level), group in cells.groupby(["metric", "level"], sort=False):
        values = [
            LOST if pd.isna(value) else f"{value:.{published.decimals}f}"
            for value in group["published"]
        ]
        rows.append([labels[str(metric)], str(level), *values])
    return HtmlTable(
        caption=(
            f"As printed: {published.source}. These are the paper's models and data, not this "
            f"study's; “{LOST}”: the print cannot be read. Top-1 exceeds top-{published.top} IoU "
            f"in {exceeds} of the {both} cells where both are printed."
        ),
        head=[
            "Metric",
            "Level",
            *(f"{m} {d}" for m in published.models.values() for d in published.datasets.values()),
        ],
        rows=rows,
        text_columns=(0, 1),
        summary="TopoQuant's Table I as printed: the paper's models",
    )


def top1_exceeds(cells: pd.DataFrame) -> tuple[int, int]:
    """In how many of how many rows `top1` is the larger; rows that lack one do not count."""
    both = cells[["top1", "iou"]].dropna()
    return int((both["top1"] > both["iou"]).sum()), len(both)


def wide(grid: pd.DataFrame) -> pd.DataFrame:
    """Our grid in the paper's layout as numbers: a row a BOS policy, metric and level."""
    ours = our_cells(grid)
    order = ["bos", "metric", "level"]
    fields = ["ours", "ours_se", "n_items", "chance", "published", "difference", "status"]
    fields = fields if is_compared(grid) else fields[:4]
    table = ours.set_index([*order, "model", "dataset"])[fields].unstack(["model", "dataset"])
    pairs = list(dict.fromkeys(zip(ours["model"], ours["dataset"], strict=True)))
    columns = [(name, *pair) for pair in pairs for name in fields]
    rows = list(dict.fromkeys(zip(*(ours[name] for name in order), strict=True)))
    ordered = table.reindex(pd.MultiIndex.from_tuples(rows, names=order))[columns]
    flat = [f"{model} {dataset} {name}" for name, model, dataset in columns]
    return pd.DataFrame(ordered.to_numpy(), index=ordered.index, columns=flat).reset_index()


def as_markdown(grid: pd.DataFrame, names: Names, published: Published) -> str:
    """Our grid in the paper's layout, and the paper's own below it."""
    lines = ["# Attention agreement", ""]
    for table in our_tables(grid, names, published):
        lines += _titled(table)
    lines += ["## As the paper prints it", "", *_titled(paper_table(published))]
    return "\n".join(lines)


def _titled(table: HtmlTable) -> list[str]:
    return [table.caption, "", *markdown_lines(table.head, table.rows, table.text_columns), ""]
