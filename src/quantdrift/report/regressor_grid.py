"""TopoQuant's Table II: R2 of predicted agreement, ours beside theirs, and ours without leaks.

The paper prints no errors, so `reproduced` means: on the paper's own models and data sets ours
lies within `TOLERANCE` of the print. A cell of other models or data is not comparable.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from .names import Names
from .written import markdown_lines

TOLERANCE = 0.05
FEATURES = {"llm5": "LLM", "tda": "TDA", "combined": "both"}
MATRICES = ("Q", "K", "V", "KQ", "KV", "QV", "KQV")
_CELL = ["regressor", "matrices", "dataset", "features"]
_OURS = {
    "random": "ours",
    "by_scheme": "ours_by_scheme",
    "by_level": "ours_by_level",
    "by_model": "ours_by_model",
}


def printed(path: Path) -> pd.DataFrame:
    """The cells of the paper: regressor, matrices, schema, features, published, is_dash."""
    raw: dict[str, Any] = yaml.safe_load(path.read_text())
    columns = [(schema, group) for schema in raw["datasets"] for group in raw["features"]]
    rows = [
        {
            "regressor": raw["regressor"],
            "matrices": matrices,
            "schema": schema,
            "features": group,
            "published": None if value == "dash" else float(value),
            "is_dash": value == "dash",
        }
        for matrices, values in raw["values"].items()
        for (schema, group), value in zip(columns, values, strict=True)
    ]
    return pd.DataFrame(rows)


def grid_rows(regressors: pd.DataFrame, path: Path, names: Names) -> pd.DataFrame:
    """The rows of `topoquant_table_2`: ours, then printed cells without a counterpart.

    Args:
        regressors: the table `regressors`.
        path: of the printed numbers.
        names: of the study.
    """
    theirs = printed(path)
    models = set(yaml.safe_load(path.read_text())["models"])
    ours = _ours(regressors)
    schema = {one.id: one.schema for one in names.datasets}
    foreign = {one.id for one in names.datasets if one.is_ours}
    ours["schema"] = ours["dataset"].map(schema)
    both = ours.merge(theirs, how="left", on=["regressor", "matrices", "schema", "features"])
    comparable = ~both["dataset"].isin(list(foreign)) & (
        {model.id for model in names.models} == models
    )
    both["published"] = both["published"].where(comparable).astype(float)
    both["difference"] = both["ours"] - both["published"]
    near = both["difference"].abs() <= TOLERANCE
    status = pd.Series("differs", index=both.index).where(~near, "reproduced")
    status = status.where(both["is_dash"].ne(True), "dash").where(both["is_dash"].notna(), "lost")
    both["status"] = status.where(comparable, "not comparable")
    taken = set(both.loc[comparable, "schema"])
    rest = theirs[~theirs["schema"].isin(list(taken))]
    rest = rest.assign(dataset=rest["schema"], difference=None, **dict.fromkeys(_OURS.values()))
    rest["status"] = ["dash" if dash else "not comparable" for dash in rest["is_dash"]]
    kept = [*_CELL, *_OURS.values(), "published", "difference", "status"]
    return pd.concat([both[kept].astype(object), rest[kept].astype(object)], ignore_index=True)


def _ours(regressors: pd.DataFrame) -> pd.DataFrame:
    """R2 of the paper's feature sets by kind of folds; LLM features stand beside all matrices."""
    its = regressors[regressors["features"].isin(list(FEATURES))]
    wide = its.set_index([*_CELL, "split"])["r2"].unstack("split").reset_index()
    wide = wide.rename(columns=_OURS)
    for name in _OURS.values():
        if name not in wide:
            wide[name] = None
    alike = wide[wide["matrices"] == "all"]
    spread = [alike.assign(matrices=name) for name in MATRICES]
    return pd.concat([wide[wide["matrices"] != "all"], *spread], ignore_index=True)


def as_markdown(grid: pd.DataFrame, names: Names) -> str:
    """The paper's layout for ours: rows are matrices, columns data set and features; by folds."""
    ours = grid[grid["ours"].notna()]
    columns = [(one.id, group) for one in names.datasets for group in FEATURES]
    parts = [
        "R2 of top-3 IoU by block, out of fold, pooled. LLM: level, bits of Q, K, V, third of the "
        "model; TDA: seven distances of each matrix. Random folds put blocks of one scheme on both "
        "sides, folds by scheme two schemes of one level, whose Q and K may be the same; folds by "
        "level leave in common what mixes give V of another level's type.",
    ]
    for split, name in _OURS.items():
        for regressor in dict.fromkeys(ours["regressor"]):
            its = ours[ours["regressor"] == regressor].set_index(
                ["matrices", "dataset", "features"]
            )
            if its[name].isna().all():
                continue
            head = ["matrices"]
            head += [f"{names.dataset_label(one)} {FEATURES[group]}" for one, group in columns]
            lines = [
                [
                    matrices,
                    *(f"{float(its[name][matrices, one, group]):.2f}" for one, group in columns),
                ]
                for matrices in MATRICES
            ]
            parts += ["", f"**{regressor}, folds {split.replace('_', ' ')}**", ""]
            parts += markdown_lines(head, lines, [0])
    theirs = grid[grid["published"].notna()]
    parts += ["", "**Printed by the paper** (linear, random folds; four other models)", ""]
    cells = [
        [row["matrices"], row["dataset"], row["features"], f"{row['published']:.2f}", row["status"]]
        for row in theirs.to_dict("records")
    ]
    parts += markdown_lines(
        ["matrices", "data set", "features", "R2", "status"], cells, [0, 1, 2, 4]
    )
    return "\n".join(parts) + "\n"
