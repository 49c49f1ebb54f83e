"""How a study was made: models, settings, versions, code and time, from the files themselves."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from .chapter import HtmlTable
from .names import Names, listed

_STAGES = {
    "checkpoint": "obtain the checkpoint",
    "weights": "prepare the weights",
    "file_source": "obtain a quantized file",
    "quantized_file": "dequantize it in the base's gauge",
    "weight_error": "quantize; weight error and bits",
    "diagrams": "quantize; persistence diagrams",
    "distances": "seven distances",
    "gauge_drift": "drift over gauges",
    "shortcuts": "drift from smaller clouds",
    "dataset": "obtain the items",
    "attention": "quantize; run the model; attended positions",
    "agreement": "agreement with the base",
    "choices": "quantize; run the model; every choice",
    "text": "obtain the text",
    "reference": "run the base; final hidden states",
    "tokens": "quantize; run the model; every predicted token",
}


def model_table(
    names: Names, tensors: Mapping[str, pd.DataFrame], made: Mapping[str, Mapping[str, Any]]
) -> list[list[tuple[str, str]]]:
    """For each model what was measured, and where it came from."""
    return [
        [
            ("Model", model.label),
            ("Source", model.source),
            *_file(made[model.id].get("source", {})),
            ("Licence", model.license),
            ("Measured weights, sha256", str(made[model.id].get("model_sha256", "unknown"))),
            ("Gauge", _gauge(model.regauge_seed)),
            ("Tensors", _tensors(tensors[model.id])),
        ]
        for model in names.models
    ]


def _file(source: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    if "member" in source:
        found.append(("File", str(source["member"])))
    if "revision" in source:
        found.append(("Revision", str(source["revision"])))
    if "sha256" in source:
        found.append(("Download, sha256", str(source["sha256"])))
    return found


def _gauge(seed: int | None) -> str:
    if seed is None:
        return "as it came"
    return f"channels rescaled by seeded powers of two within ±1/2, seed {seed}; same function"


def _tensors(rows: pd.DataFrame) -> str:
    lattice = list(rows.loc[rows["on_lattice"], "tensor"])
    text = f"{len(rows)}"
    if lattice:
        text += f"; still on the lattice of the quantized source: {listed(lattice)}"
    return text


def facts(
    made: Mapping[str, Mapping[str, Any]], short_rows: str, gauge: pd.DataFrame
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Settings, versions and code digests, each as a titled list."""
    diagrams, distances = made["diagrams"], made["distances"]
    wanted = ("points", "backend", "precision", "max_points", "sample_seed")
    settings = [
        (name.replace("_", " "), str(diagrams[name])) for name in wanted if name in diagrams
    ]
    settings.append(("short rows", short_rows))
    if "threshold" in distances:
        settings.append(("threshold", f"{distances['threshold']:g}"))
    grids = distances.get("grids", {})
    settings += [
        (name.replace("_", " "), "all" if value is None else str(value))
        for name, value in grids.items()
    ]
    if len(gauge):
        seeds = map(str, sorted(set(gauge["gauge_seed"])))
        settings.append(("gauge seeds", listed(seeds)))
    code = [(f"{name}", str(one["code"])) for name, one in made.items() if "code" in one]
    versions = {
        name: value for one in made.values() for name, value in one.get("versions", {}).items()
    }
    found = [("Settings", settings), ("Versions", list(versions.items())), ("Code digests", code)]
    return [(title, rows) for title, rows in found if rows]


def dataset_facts(table: pd.DataFrame, names: Names) -> tuple[str, list[tuple[str, str]]]:
    """The data sets, as a titled list: items measured, licence, and whether they are ours.

    Args:
        table: `agreement_table`.
        names: of the study.
    """
    items = table.groupby("dataset")["n_items"].max()
    return "Data sets", [
        (
            one.label,
            f"{items[one.id]} items; {one.license}"
            + ("; written for this project" if one.is_ours else ""),
        )
        for one in names.datasets
        if one.id in items
    ]


def timing_table(timings: pd.DataFrame) -> HtmlTable | None:
    """Jobs, time and memory by stage; None where no record is left."""
    if not len(timings):
        return None
    rows = [_stage(str(stage), jobs) for stage, jobs in timings.groupby("stage", sort=False)]
    order = list(_STAGES)
    rows.sort(key=lambda row: order.index(row[0]) if row[0] in order else len(order))
    total = _stage("", timings)[2:]
    return HtmlTable(
        caption="Jobs, time and memory by stage. Time adds up over jobs, which ran side by side.",
        head=["Rule", "Makes", "Jobs", "Time", "Processor", "Longest job", "Peak memory"],
        rows=[*rows, ["all", "", *total]],
        text_columns=(0, 1),
    )


def _stage(name: str, jobs: pd.DataFrame) -> list[str]:
    cpu, peak = jobs["cpu_seconds"].sum(min_count=1), jobs["peak_mib"].max()
    return [
        name,
        _STAGES.get(name, ""),
        str(len(jobs)),
        _duration(jobs["seconds"].sum()),
        "–" if pd.isna(cpu) else _duration(cpu),
        _duration(jobs["seconds"].max()),
        "–" if pd.isna(peak) else f"{peak:.0f} MiB",
    ]


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
