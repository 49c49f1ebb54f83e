"""Snakemake's benchmark files: what each job took. They may be gone; then nothing is said of it."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def timings(folder: Path, files: Iterable[Path]) -> list[dict[str, Any]]:
    """Rows of the table `timings`, one a benchmark file that is there.

    Args:
        folder: results/benchmarks; the first part of a file's path below it is its rule.
        files: benchmark files of the study's jobs; missing and unfinished ones are passed over.
    """
    rows = []
    for file in files:
        if not file.is_file():
            continue
        with file.open(newline="") as lines:
            measured = next(csv.DictReader(lines, delimiter="\t"), None)
        seconds = _number(measured, "s")
        if seconds is None:
            continue
        job = file.relative_to(folder)
        rows.append(
            {
                "stage": job.parts[0],
                "job": job.as_posix(),
                "seconds": seconds,
                "cpu_seconds": _number(measured, "cpu_time"),
                "peak_mib": _number(measured, "max_rss"),
            }
        )
    return rows


def _number(measured: dict[str, Any] | None, name: str) -> float | None:
    """A measurement, or null: Snakemake writes NA or - for jobs too short to be sampled."""
    try:
        return float((measured or {}).get(name) or "")
    except ValueError:
        return None
