"""TopoQuant's Table III: what drift costs beside running the model, level by level.

The paper calls T what its pipeline takes (attention agreement included) and D what the downstream
evaluation takes, and quotes T / (T + D) in one sentence and T / D in the next. Both are here, with
and without attention, since drift alone never runs the model.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from .names import Names

DRIFT = ("diagrams", "distances")
ATTENTION = ("attention", "agreement")
DOWNSTREAM = ("tokens", "choices")
NUMBERS = ["drift", "attention", "downstream"]


def cost_rows(timings: pd.DataFrame, published: Path, names: Names) -> pd.DataFrame:
    """The rows of `topoquant_table_3`: ours by model and level, then the paper's.

    Args:
        timings: the table `timings`; its jobs are named by rule, model and scheme.
        published: the file of printed numbers.
        names: of the study.
    """
    parts = timings["job"].str.split("/")
    schemes = [part[2].removesuffix(".log") if len(part) > 2 else "" for part in parts]
    jobs = timings.assign(model=parts.str[1], scheme=schemes)
    rows = []
    for model in names.models:
        its = jobs[jobs["model"] == model.id]
        base = its[its["scheme"] == "base"]
        for level, scheme in names.leading.items():
            rows.append(
                {"model": model.id, "level": level}
                | _seconds(its[its["scheme"] == scheme])
                | {"base": _sum(base, DRIFT + ATTENTION), "machine": _machines(its)}
            )
    ours = pd.DataFrame(rows).assign(published_topoquant=None, published_downstream=None)
    theirs = _printed(published)
    both = pd.concat([ours, theirs.reindex(columns=ours.columns)], ignore_index=True)
    together = both["drift"] + both["attention"]
    spent = both["published_topoquant"].combine_first(together).astype(float)
    down = both["published_downstream"].combine_first(both["downstream"]).astype(float)
    drift = both["drift"].astype(float)
    return both.assign(
        drift_over_downstream=drift / down,
        drift_share=drift / (drift + down),
        topoquant_over_downstream=spent / down,
        topoquant_share=spent / (spent + down),
        status="not comparable",
    )


def _seconds(jobs: pd.DataFrame) -> dict[str, float | None]:
    groups = (DRIFT, ATTENTION, DOWNSTREAM)
    return {name: _sum(jobs, stages) for name, stages in zip(NUMBERS, groups, strict=True)}


def _sum(jobs: pd.DataFrame, stages: tuple[str, ...]) -> float | None:
    """Wall seconds of these stages; None where none of their jobs left its record."""
    found = jobs.loc[jobs["stage"].isin(stages), "seconds"]
    return float(found.sum()) if len(found) else None


def _machines(jobs: pd.DataFrame) -> str:
    return "; ".join(sorted(set(jobs["machine"]))) or "unknown"


def _printed(path: Path) -> pd.DataFrame:
    raw: dict[str, Any] = yaml.safe_load(path.read_text())
    rows = [
        {
            "model": raw["model"],
            "level": level.upper(),
            "published_topoquant": float(spent),
            "published_downstream": float(down),
            "machine": raw["source"],
        }
        for level, (spent, down) in raw["values"].items()
    ]
    return pd.DataFrame(rows)
