import json

import pandas as pd
import pytest
import vl_convert
from report_tables import DATASETS, LEVELS, THRESHOLD, iou_of, study

from quantdrift.report import level_figure as levels
from quantdrift.report.agreement_figure import agreement_figure
from quantdrift.report.block_figure import block_figure
from quantdrift.report.diagram_figure import diagram_figure, hardest_hit, most_hidden, plotted
from quantdrift.report.figure import VEGA_LITE, rounded, save
from quantdrift.report.gauge_figure import gauge_figure
from quantdrift.report.theme import DARK, LIGHT, resolved
from quantdrift.report.trajectory_figure import SHAPES as MARKS
from quantdrift.report.trajectory_figure import plotted as trajectories
from quantdrift.report.trajectory_figure import trajectory_figure

SHAPES = [
    {},
    {"roles": ("q",)},
    {"models": ("tiny", "other")},
    {"levels": LEVELS[:1]},
    {"levels": LEVELS[:-1]},
    {"parts": 2},
    {"policies": ("without",)},
    {"datasets": DATASETS[:1]},
]


def figures(made):
    return [
        levels.level_figure(made.blocks, made.errors, made.names, THRESHOLD),
        diagram_figure(made.tables["diagrams"], made.tables["distances"], made.names, THRESHOLD),
        block_figure(made.blocks, made.names, THRESHOLD),
        gauge_figure(made.tables["gauge_drift"], made.names, THRESHOLD),
    ]


def agreement_figures(made):
    return [
        trajectory_figure(made.blocks, made.agreed.table, made.names, THRESHOLD),
        agreement_figure(made.agreed.blocks, made.names),
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_figure_compiles_for_every_shape_of_study(shape):
    made = study(**shape)
    for figure in [*figures(made), *agreement_figures(made)]:
        for spec in (figure.packed(), figure.still):
            compiled = vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE)
            assert compiled["marks"], figure.name
        assert figure.title
        assert figure.caption
        assert figure.alt


def test_the_level_figure_draws_means_over_blocks():
    made = study()
    data = levels.plotted(made.blocks, made.errors, made.names, THRESHOLD)
    row = data[
        (data["role"] == "q") & (data["level"] == "Q8_0") & (data["reading"] == "clip at 0.8")
    ]
    blocks = made.blocks[
        (made.blocks["role"] == "q")
        & (made.blocks["scheme"] == "q8_0-paper")
        & (made.blocks["filtration"] == "clip")
        & (made.blocks["distance"] == "swd")
    ]
    assert row["swd"].item() == pytest.approx(blocks["value"].mean())
    assert row["swd_per_point"].item() == pytest.approx(blocks["value_per_point"].mean())


def test_the_pure_line_is_whole_and_only_where_it_differs():
    made = study()
    data = levels.plotted(made.blocks, made.errors, made.names, THRESHOLD)
    pure = data[data["variant"] == "pure"]
    assert set(pure["role"]) == {"v"}
    line = pure[pure["reading"] == "full"]
    assert line["level"].tolist() != []
    assert set(line["level"]) == {"Q8_0", "Q5_0", "Q5_K", "Q4_0", "Q2_K"}
    assert (line["type"].str.upper() == line["level"]).all()


def test_a_trajectory_joins_drift_and_agreement_of_one_level():
    made = study()
    data = trajectories(made.blocks, made.agreed.table, made.names, THRESHOLD)
    keys = ["role", "level", "reading", "dataset", "bos"]
    assert not data.duplicated(keys).any()
    assert len(data) == 3 * 5 * 3 * 2 * 2
    row = data.set_index(keys).loc[("Q", "Q4_0", "clip at 0.8", "HellaSwag", "without BOS")]
    swd = made.drift.set_index(["role", "scheme", "filtration"])["swd_mean"]
    assert row["swd"] == pytest.approx(swd["q", "q4_0-paper", "clip"])
    assert row["iou"] == pytest.approx(iou_of("q4_0", "hella", "without"))
    assert row["rank"] == 3


def test_a_still_trajectory_shows_the_first_of_each_choice():
    figure = agreement_figures(study())[0]
    fixed = {param["name"]: param["value"] for param in figure.still["params"]}
    assert fixed == {
        "dataset": "Own ARC",
        "bos": "with BOS",
        "metric": "iou",
        "distance": "swd",
        "reading": "clip at 0.8",
    }
    assert "bind" not in str(figure.still["params"])
    assert figure.still_shows == "Top-3 IoU on Own ARC, with BOS, against SWD"


def test_levels_of_any_name_and_number_have_a_mark(monkeypatch):
    monkeypatch.setattr("quantdrift.report.trajectory_figure.SHAPES", MARKS[:3])
    made = study(levels=[[scheme, f"odd_{scheme[:4]}_m", "file"] for scheme, _, _ in LEVELS[:-1]])
    figure = agreement_figures(made)[0]
    assert set(figure.data["level"]) == {
        f"ODD_{name}_M" for name in ["Q8_0", "Q5_0", "Q5_K", "Q4_0", "Q2_K"]
    }
    scale = figure.spec["spec"]["layer"][-1]["encoding"]["shape"]["scale"]
    assert len(scale["range"]) == len(scale["domain"]) == 5
    vl_convert.vegalite_to_vega(figure.packed(), vl_version=VEGA_LITE)


def test_the_matrices_shown_are_the_hardest_hit_and_the_most_hidden():
    made = study()
    worst = hardest_hit(made.tables["distances"], made.names)
    assert (worst.role, worst.block, worst.scheme) == ("q", 4, "q2_k-paper")
    assert most_hidden(made.tables["distances"], made.names, worst).role == "v"
    data = plotted(made.tables["diagrams"], worst, "Q2_K", THRESHOLD)
    base = data[data["diagram"] == "base"]
    assert (base["fate"] == "finite").sum() == 30
    assert base["left"].tolist() == list(range(39, 0, -1))


def test_large_diagrams_are_thinned(monkeypatch):
    made = study()
    worst = hardest_hit(made.tables["distances"], made.names)
    monkeypatch.setattr("quantdrift.report.diagram_figure.MOST_BARS", 10)
    data = plotted(made.tables["diagrams"], worst, "Q2_K", THRESHOLD)
    assert len(data) == 20
    whole = made.tables["diagrams"].iloc[0]["deaths"]
    base = data[data["diagram"] == "base"]["death"]
    assert (base.min(), base.max()) == (whole[0], whole[-1])


def test_all_files_of_a_figure(tmp_path):
    figure = figures(study())[0]
    paths = {kind: tmp_path / f"f.{kind}" for kind in ("html", "svg", "png", "csv", "json")}
    save(figure, *paths.values())
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    svg = paths["svg"].read_text()
    assert "var(--" not in svg
    assert LIGHT["s1"] in svg
    assert json.loads(paths["json"].read_text())["usermeta"]["name"] == "topoquant_figure_2"
    assert len(pd.read_csv(paths["csv"])) == len(figure.data)
    html = paths["html"].read_text()
    assert "http-equiv" not in html
    assert figure.title.replace("'", "’") in html


def test_four_significant_digits():
    data = pd.DataFrame(
        {"a": [0.000123456, 123456.0, float("nan")], "n": [1, 2, 3], "t": ["x"] * 3}
    )
    assert rounded(data)["a"].tolist()[:2] == [0.0001235, 123500.0]
    assert rounded(data)["n"].tolist() == [1, 2, 3]


def _contrast(one, other):
    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out(palette):
    for name in ("ink", "muted", "accent", "s3"):  # WCAG AA: text 4.5, graphics 3
        assert _contrast(palette[name], palette["paper"]) >= 4.5, name
    for name in ("s1", "s2", "s4", "s5", "s6", "heat"):
        assert _contrast(palette[name], palette["paper"]) >= 3, name


def test_the_palettes_name_the_same_colours():
    assert LIGHT.keys() == DARK.keys()
    assert resolved({"a": ["var(--ink)", 1]}, DARK) == {"a": [DARK["ink"], 1]}
