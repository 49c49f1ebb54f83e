import dataclasses
import re
import shutil
from html.parser import HTMLParser

import pandas as pd
import pytest
from report_tables import LEVELS, PUBLISHED, THRESHOLD, study
from test_figures import agreement_figures, figures

from quantdrift.report.agreement_chapter import Agreement
from quantdrift.report.page import Results, page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def results(made, timings=True):
    jobs = [["weights", "weights/tiny.tsv", 2.0, 1.5, 300.0], ["diagrams", "d", 125.0, None, None]]
    columns = ["stage", "job", "seconds", "cpu_seconds", "peak_mib"]
    tensors = pd.DataFrame(
        {
            "tensor": ["model.embed_tokens.weight", "a"],
            "role": ["embed", "v"],
            "on_lattice": [True, False],
        }
    )
    made_by = {"model_sha256": "ab" * 32, "code": "c0de", "versions": {"numpy": "9.9"}}
    shown = figures(made) if len(made.tables["gauge_drift"]) else figures(study())[:3]
    return Results(
        study="small",
        names=made.names,
        threshold=THRESHOLD,
        short_rows="flat",
        points="rows",
        drift=made.drift,
        errors=made.errors,
        blocks=made.blocks,
        gauge=made.tables["gauge_drift"],
        timings=pd.DataFrame(jobs if timings else [], columns=columns),
        figures=[figure.packed() for figure in shown],
        tensors={model.id: tensors for model in made.names.models},
        made={model.id: made_by for model in made.names.models}
        | {
            "diagrams": {"points": "rows", "backend": "prim", "code": "d1a6"},
            "distances": {"threshold": THRESHOLD, "grids": {"swd_directions": 64}},
        },
        agreement=attention(made) if made.names.datasets else None,
    )


def attention(made):
    return Agreement(
        table=made.agreed.table,
        blocks=made.agreed.blocks,
        grid=made.agreed.grid,
        published=PUBLISHED,
        figures=[figure.packed() for figure in agreement_figures(made)],
    )


@pytest.fixture(scope="module")
def html():
    return page(results(study()))


class Reader(HTMLParser):
    """What a page asks for, its headings, and what stands in it as text."""

    def __init__(self, html):
        super().__init__()
        self.asked, self.headings, self.tables, self.captions, self.ids = [], [], 0, 0, []
        self.text, self.inside = "", None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        its = dict(attrs)
        self.inside = tag
        if tag in ("link", "script", "img", "iframe", "source"):
            self.asked += [its[name] for name in ("src", "href") if name in its]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.tables += tag == "table"
        self.captions += tag == "caption"
        self.ids += [its["id"]] if "id" in its else []

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.text += data


def test_the_page_asks_for_nothing(html):
    assert Reader(html).asked == ["data:,"]
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_is_small_and_holds_its_libraries_once(html):
    assert len(html.encode()) < 5_000_000
    assert html.count("window.vegaEmbed=") == 1


def test_the_page_opens_with_the_answer_of_its_tables(html):
    text = Reader(html).text
    sentence = "Q8_0, Q5_0 and Q5_K leave the weights’ topology nearly alone"
    assert sentence in text
    assert text.index(sentence) < text.rindex("Before you act") < text.rindex("How it was made")
    other = study()
    other.drift = other.drift.assign(bar_shift_mean=0.5, bar_shift_max=0.5)
    assert sentence not in Reader(page(results(other))).text


def test_the_page_tells_where_attention_agrees_and_whose_items_these_are(html):
    text = Reader(html).text
    headline = "Attention agrees with the base down to Q5_K; it breaks first at Q4_0."
    assert text.index(headline) < text.index("Lowest level that agrees")
    assert "IoU) of at least 0.9 on every data set" in text
    assert "Own ARC were written for this project" in text
    assert "0.89 ✗" in text
    assert "0.93 ✓" in text
    printed = text.index("As printed: Rababah")
    assert text.index("in the layout of TopoQuant’s Table I") < printed
    assert "lost" in text[printed : text.rindex("How it was made")]


def test_the_page_states_its_rule_and_how_it_was_made(html):
    text = Reader(html).text
    for words in ("more than 1.0 % of the base’s mean bar", "ab" * 32, "c0de", "9.9", "seed 0"):
        assert words in text
    assert "2 min 5 s" in text
    assert "model.embed_tokens.weight" in text


def test_headings_step_down_one_by_one_and_tables_have_captions(html):
    read = Reader(html)
    assert read.headings[0] == 1
    assert read.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(read.headings, read.headings[1:], strict=False))
    assert read.tables == read.captions > 0
    assert len(read.ids) == len(set(read.ids))
    assert html.count('"description":"') == 6
    assert '<html lang="en">' in html


def test_what_names_hold_is_text_not_markup():
    made = study()
    bad = made.names.models[0].__class__("tiny", "</script><b>x", "MIT", 0, "local <i>")
    made.names = made.names.__class__(made.names.schemes, (bad,))
    html = page(results(made))
    assert "<b>x" not in html
    assert "<i>" not in html


@pytest.mark.parametrize(
    "shape",
    [
        {"gauges": False},
        {"levels": LEVELS[:1]},
        {"roles": ("q",)},
        {"models": ("tiny", "other")},
        {"datasets": []},
    ],
    ids=str,
)
def test_pages_of_other_studies(shape):
    text = Reader(page(results(study(**shape), timings=False))).text
    assert ("no figure of that" in text) == (shape == {"gauges": False})
    assert "No record of what" in text
    assert ("Other-1M" in text) == ("models" in shape)
    assert ("Attention agreement" in text) == ("datasets" not in shape)
    assert ("names no data sets" in text) == ("datasets" in shape)
    assert "nan" not in re.findall(r"\bnan\b", text.lower())


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: the page is not drawn")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


DRAWN = """[...document.querySelectorAll('figure.chart .canvas')].length === 6
    && [...document.querySelectorAll('figure.chart .canvas')].every(c => c.querySelector('svg'))"""


@pytest.fixture
def opened(browser, html, tmp_path):
    """Open the page at a width; every complaint and request is kept."""
    (tmp_path / "report.html").write_text(html)
    kept = []

    def open_at(width):
        context = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
        tab = context.new_page()
        tab.complaints, tab.requests = [], []
        kept.append(context)
        tab.on("console", lambda m: tab.complaints.append(m.text) if m.type != "log" else None)
        tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.on("request", lambda request: tab.requests.append(request.url))
        tab.goto((tmp_path / "report.html").as_uri())
        tab.wait_for_function(DRAWN, timeout=15_000)
        return tab

    yield open_at
    for context in kept:
        context.close()


@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_draws_offline_without_complaint_and_fits(opened, width):
    tab = opened(width)
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.set_viewport_size({"width": width + 200, "height": 800})
    tab.wait_for_timeout(400)
    assert tab.complaints == []


def test_charts_follow_the_theme_while_the_page_is_open(opened):
    tab = opened(1000)
    colour = """getComputedStyle(document.querySelector('figure.chart .mark-line path')).stroke"""
    tab.emulate_media(color_scheme="light")
    light = tab.evaluate(colour)
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate(colour) != light
    tab.emulate_media(color_scheme="dark", media="print")
    assert tab.evaluate(colour) == light


def test_choosing_a_distance_redraws_and_survives_a_resize(opened):
    tab = opened(1000)
    lines = "document.querySelector('#topoquant_figure_2 .mark-line path').getAttribute('d')"
    before = tab.evaluate(lines)
    tab.select_option("#topoquant_figure_2 select >> nth=0", label="persistent entropy")
    tab.wait_for_function(f"{lines} !== {before!r}")
    tab.set_viewport_size({"width": 700, "height": 800})
    tab.wait_for_timeout(600)
    chosen = "document.querySelector('#topoquant_figure_2 select').selectedOptions[0].label"
    assert tab.evaluate(chosen) == "persistent entropy"


def test_weights_on_a_lattice_take_the_answer_back_before_it_is_given():
    plain = results(study())
    warning = "quantized before"
    assert warning not in page(plain)
    tensors = {model: rows.assign(on_lattice=True) for model, rows in plain.tensors.items()}
    html = page(dataclasses.replace(plain, tensors=tensors))
    assert html.index("Do not compare levels") < html.index("Smallest quiet format")
    assert warning in html


def test_a_fused_tensor_on_a_lattice_warns_of_each_role_in_it():
    plain = results(study())
    fused = {
        model: rows.assign(on_lattice=rows["role"].notna(), role="q k v")
        for model, rows in plain.tensors.items()
    }
    assert "Q, K and V of" in page(dataclasses.replace(plain, tensors=fused))
