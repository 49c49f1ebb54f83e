"""A finished study is left alone, and a change reruns what it affects and no more."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from study import SCHEMES, Study

pytestmark = pytest.mark.workflow

DISTANCES = 3 * 2 * 2  # jobs: schemes x roles x slices


@contextmanager
def edited(file: Path, old: str, new: str) -> Iterator[None]:
    """The file with one passage replaced; its time too goes back afterwards."""
    before = file.read_text()
    assert old in before, f"{file.name} no longer holds {old!r}; the test needs another passage"
    file.write_text(before.replace(old, new, 1))
    try:
        yield
    finally:
        file.write_text(before)


def test_finished_study_has_its_page_and_nothing_to_do(finished: Study):
    assert (finished.folder / "results/demo/report.html").stat().st_size > 10_000
    assert not (finished.folder / "results/.stage").exists() or not any(
        (finished.folder / "results/.stage").iterdir()
    )
    done = finished.run()
    assert "Nothing to be done" in done.stdout + done.stderr


def test_comment_and_docstring_rerun_nothing(finished: Study):
    distances = finished.folder / "src/quantdrift/topology/distances.py"
    text = distances.read_text()
    changed = re.sub(r'"""', '"""Reworded. ', text, count=1) + "\n# a remark\n"
    distances.write_text(changed)
    try:
        assert finished.planned() == {}
    finally:
        distances.write_text(text)


def test_formula_of_one_distance_reruns_distances_not_diagrams(finished: Study):
    sliced = finished.folder / "src/quantdrift/topology/sliced.py"
    with edited(sliced, "def sliced_wasserstein(", "FACTOR = 2\n\n\ndef sliced_wasserstein("):
        planned = finished.planned()
    assert planned["distances"] == DISTANCES
    assert planned["gauge_drift"] == 1 * 2 * 2
    assert "report" in planned
    assert not {"diagrams", "weights", "weight_error", "checkpoint"} & planned.keys()


def test_directions_of_swd_rerun_distances_not_diagrams(finished: Study):
    planned = finished.planned(set_also=("topology.grids.swd_directions=32",))
    assert planned["distances"] == DISTANCES
    assert not {"diagrams", "weights", "weight_error", "checkpoint"} & planned.keys()


def test_precision_reruns_diagrams_not_weight_error(finished: Study):
    planned = finished.planned(set_also=("topology.precision=float32",))
    assert planned["diagrams"] == DISTANCES + 2 * 2  # and the base
    assert not {"weights", "weight_error", "checkpoint"} & planned.keys()


def test_one_more_scheme_measures_that_scheme_alone(finished: Study):
    schemes = ",".join([*SCHEMES, "llamacpp-q5_0-pure"])
    planned = finished.planned(set_also=(f"schemes=[{schemes}]",))
    assert planned["diagrams"] == planned["distances"] == planned["weight_error"] == 2 * 2


def test_figure_target_makes_no_more_than_it_needs(new_study):
    planned = new_study().planned("topoquant_figure_2")
    assert planned["distances"] == DISTANCES
    assert not {"gauge_drift", "report"} & planned.keys()
