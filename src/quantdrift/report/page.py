"""The page of a study: the answer, the evidence chapter by chapter, and how it was made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from . import (
    accuracy_chapter,
    agreement_answer,
    agreement_chapter,
    agreement_findings,
    findings,
    prediction_chapter,
    text_chapter,
)
from .agreement_chapter import Agreement
from .agreement_findings import LevelAgreement
from .answer import Point, answer, headline, number, percent
from .caveats import caveats, on_lattice
from .chapter import Chapter, HtmlTable
from .claims import claims
from .figure import render
from .made import dataset_facts, facts, model_table, timing_table
from .names import Names, listed, role_label
from .prediction_chapter import Prediction
from .text_chapter import TextResults

POINTS = {"rows": "rows", "columns": "columns", "heads": "rows of each head"}
VERDICT_SIGNS = {"quiet": "○", "moves": "◐", "reshapes": "●"}


@dataclass(frozen=True)
class Results:
    """All that a page is made of; tables as `tables.io.read` gives them."""

    study: str
    names: Names
    threshold: float
    short_rows: str
    drift: pd.DataFrame
    errors: pd.DataFrame
    blocks: pd.DataFrame
    gauge: pd.DataFrame
    timings: pd.DataFrame
    figures: list[dict[str, Any]]
    """Specifications that `figure.save` wrote, in the order they are shown."""
    tensors: Mapping[str, pd.DataFrame]
    points: str
    """What a point of a cloud is: rows, columns or heads."""
    made: Mapping[str, Mapping[str, Any]]
    """Provenance of each model's tensors, of diagrams and of distances."""
    agreement: Agreement | None = None
    """Of the chapter on attention, where the study measures it."""
    text: TextResults | None = None
    """Of the chapter on text, where the study reads some."""
    accuracy: pd.DataFrame | None = None
    """`accuracy_table`, where the study scores choices."""
    prediction: Prediction | None = None
    """Of the chapter on prediction, where the study fits regressors."""


def page(results: Results) -> str:
    """One HTML file that needs nothing but itself."""
    names, attention, scored = results.names, results.agreement, results.accuracy
    found = findings.verdicts(results.drift, results.errors, names)
    levels = level_agreements(results, found)
    labels = [model.label for model in names.models]
    subject = listed(labels) if len(labels) < 3 else f"{len(labels)} models"
    tables = (results.drift, results.errors)
    return render(
        "page.html.jinja",
        study=results.study,
        title=f"What quantization does to {subject}",
        headline=" ".join(
            [headline(found), *([agreement_answer.headline(levels)] if levels else [])]
        ),
        points=[
            *warnings_first(results),
            *answer(*tables, results.blocks, names, found),
            *(
                agreement_answer.answer(attention.table, attention.blocks, *tables, levels, names)
                if attention
                else []
            ),
            *([text_chapter.answer(results.text, names)] if results.text else []),
            *([accuracy_chapter.answer(scored, names)] if scored is not None else []),
            *(prediction_chapter.answer(results.prediction, names) if results.prediction else []),
        ],
        rule=[*verdict_rule(), *([agreement_answer.rule(names)] if attention else [])],
        glances=[glance(results, model.id, found, levels) for model in names.models],
        caveats=caveats(
            *tables,
            results.gauge,
            names,
            results.threshold,
            results.short_rows,
        ),
        chapters=[
            weights_chapter(results),
            *([agreement_chapter.chapter(attention, *tables, names)] if attention else []),
            *([text_chapter.chapter(results.text, names)] if results.text else []),
            *([accuracy_chapter.chapter(scored, names)] if scored is not None else []),
            *(
                [
                    prediction_chapter.chapter(
                        results.prediction, attention.table, *tables, results.text, names
                    )
                ]
                if results.prediction and attention
                else []
            ),
        ],
        models=model_table(names, results.tensors, results.made),
        facts=[
            *facts(results.made, results.short_rows, results.gauge),
            *([dataset_facts(attention.table, names)] if attention else []),
        ],
        timings=timing_table(results.timings),
    )


def level_agreements(results: Results, found: list[findings.Verdict]) -> list[LevelAgreement]:
    """How far attention agrees at each level; nothing where the study does not measure it."""
    if results.agreement is None:
        return []
    return agreement_findings.level_agreements(results.agreement.table, found, results.names)


def verdict_rule() -> list[Point]:
    """The declared rule behind the verdicts."""
    limit = percent(findings.NEARLY_ALONE)
    return [
        Point.of(
            "Quiet",
            f"in no matrix the average bar of the persistence diagram moves by more than {limit} "
            "of the base's mean bar, and no projection is past its knee.",
        ),
        Point.of(
            "Reshapes", f"in some projection that shift exceeds {limit} in the mean over blocks."
        ),
        Point.of("Moves", "anything between the two."),
        Point.of(
            "Knee",
            "going from fine to coarse, the first type from which on to the coarsest the drift "
            "(SWD) grows faster than the weight error: d log drift / d log error above 1.",
        ),
    ]


def glance(
    results: Results, model: str, found: list[findings.Verdict], levels: list[LevelAgreement]
) -> HtmlTable:
    """One line a level: bits, error, how far bars move, verdict; and how far attention agrees."""
    names = results.names
    drift = results.drift[results.drift["model"] == model].drop_duplicates(["scheme", "role"])
    shift = drift.set_index(["scheme", "role"])["bar_shift_mean"]
    errors = results.errors[results.errors["model"] == model]
    roles = list(dict.fromkeys(drift["role"]))
    agrees = {one.level: one for one in levels if one.model == model}
    divergence = text_chapter.divergences(results.text, model) if results.text else {}
    rows = []
    for one in (verdict for verdict in found if verdict.model == model):
        scheme = names.leading[one.level]
        error = errors.loc[errors["scheme"] == scheme, "relative_frobenius"].max()
        rows.append(
            [
                one.level,
                f"{VERDICT_SIGNS[one.verdict]} {one.verdict}",
                f"{one.bits:.2f}",
                percent(float(error)),
                *(percent(float(shift[scheme, role])) for role in roles),
                percent(one.worst_shift),
                *([_iou(agrees.get(one.level))] if levels else []),
                *([number(divergence[scheme], 2)] if divergence else []),
            ]
        )
    label = f" of {names.label(model)}" if len(names.models) > 1 else ""
    told = (
        f" {names.metrics['iou']}: how far attention agrees, on the data set where it is lowest; "
        "✓ agrees, ✗ does not."
        if levels
        else ""
    )
    if results.text and divergence:
        told += f" KL: of the next token, in nats, on {results.text.protocols[0].label}."
    return HtmlTable(
        caption=(
            f"Levels{label} in the paper's order: bits a weight in full, relative weight error, "
            "and how far the average bar moves by projection (mean over blocks) and in the worst "
            f"matrix.{told}"
        ),
        head=[
            *("Level", "Verdict", "Bits", "Error", *map(role_label, roles), "Worst"),
            *([names.metrics["iou"]] if levels else []),
            *(["KL"] if divergence else []),
        ],
        rows=rows,
        text_columns=(0, 1),
        marks=[one.verdict for one in found if one.model == model],
    )


def _iou(one: LevelAgreement | None) -> str:
    return "–" if one is None else f"{one.iou:.2f} {'✓' if one.agrees else '✗'}"


def warnings_first(results: Results) -> list[Point]:
    """What must be read before the answer, since it takes the answer back."""
    warned = on_lattice(results.tensors, set(results.drift["role"]), results.names)
    return [Point.of("Do not compare levels", warned)] if warned else []


def weights_chapter(results: Results) -> Chapter:
    """Chapter 1: the topology of the weights."""
    notes = []
    if not len(results.gauge):
        notes.append("This study names no schemes to measure in several gauges: no figure of that.")
    return Chapter(
        id="weights",
        title="Topology of the weights",
        lead=(
            f"The {POINTS[results.points]} of a weight matrix are points; their cosine distances "
            "give a persistence diagram of connected components (H0). Drift is the distance "
            "between the diagrams before and after quantization."
        ),
        figures=results.figures,
        claims=claims(results.drift, results.errors, results.gauge, results.names),
        tables=[drift_and_error(results)],
        notes=notes,
    )


def drift_and_error(results: Results) -> HtmlTable:
    """Everything by scheme and projection, as one table."""
    names, drift = results.names, results.drift
    filtrations = list(dict.fromkeys(drift["filtration"]))
    keys = ["model", "scheme", "role", "filtration"]
    cells = {tuple(row[key] for key in keys): row for row in drift.to_dict("records")}
    rows = []
    for row in names.described(results.errors).to_dict("records"):
        key = (row["model"], row["scheme"], row["role"])
        swd = [_mean_sd(cells[*key, name]) for name in filtrations]
        bars = cells[*key, filtrations[0]]
        model = [names.label(row["model"])] if len(names.models) > 1 else []
        rows.append(
            [
                *model,
                f"{row['level']} {row['variant']}",
                role_label(row["role"]),
                row["type"].upper(),
                f"{number(row['bpw_claimed'], 4)} / {number(row['bpw_full'], 4)}",
                percent(row["relative_frobenius"]),
                number(row["mae"]),
                f"{row['cosine']:.4f}",
                *swd,
                f"{bars['n_finite_base']:.0f} → {bars['n_finite']:.0f} of {bars['n_points']:.0f}",
            ]
        )
    many = len(names.models) > 1
    head = ["Scheme", "Role", "Type", "Bits named / full", "Error", "MAE", "Cosine"]
    head += [f"SWD {name}" for name in filtrations] + ["Finite bars"]
    return HtmlTable(
        caption=(
            "Weight error, bits and drift by scheme and projection. SWD: mean ± standard deviation "
            "over blocks; finite bars at the threshold, before → after, mean over blocks."
        ),
        head=[*(["Model"] if many else []), *head],
        rows=rows,
        text_columns=(0, 1, 2, 3) if many else (0, 1, 2),
        summary="All numbers by scheme and projection",
    )


def _mean_sd(cell: Mapping[Any, Any]) -> str:
    if pd.isna(cell["swd_sd"]):
        return number(cell["swd_mean"])
    deviation = float(f"{cell['swd_sd']:.2g}")
    return f"{number(cell['swd_mean'])} ± {deviation:g}"
