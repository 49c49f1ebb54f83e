"""The page as a reader meets it: opened from a file in a real browser, with nothing to ask for."""

import socket

import pandas as pd
import pytest
from pages import SHAPES, every_figure, html_of
from visit import Visit

from quantdrift.report.figure import Figure, dropdown, render

DEMO = "results/demo/report.html"
WIDE, NARROW = 1280, 360


def opened_with(chromium, folder, *specs, **context):
    """A page of these specifications, as `figure.save` writes it for one."""
    file = folder / "figure.html"
    file.write_text(render("figure.html.jinja", figures=list(specs)))
    visit = Visit(chromium, file, WIDE, **context)
    return visit.draw() if context.get("java_script_enabled", True) else visit


def small_chart(name="small"):
    """A specification as `Figure.packed` makes them: two panels, and a list of what to show."""
    points = [{"panel": p, "x": x, "y": 2 * x, "z": 3 - x} for p in "ab" for x in (1, 2)]
    axes = {name: {"field": name, "type": "quantitative"} for name in ("x", "shown")}
    chart = {
        "data": {"values": points},
        "params": [dropdown("field", "Field", {"y": "first", "z": "second"})],
        "transform": [{"calculate": "datum[field]", "as": "shown"}, {"filter": "datum.shown >= 0"}],
        "facet": {"column": {"field": "panel", "type": "nominal"}},
        "spacing": 12,
        "spec": {
            "height": 150,
            "mark": "point",
            "encoding": {"x": axes["x"], "y": axes["shown"]},
        },
    }
    words = {name: f"the {name}" for name in ("title", "caption", "alt")}
    empty = pd.DataFrame()
    return Figure(name, **words, spec=chart, still=chart, data=empty, panels=2).packed()


@pytest.fixture(scope="module", params=[*SHAPES, DEMO])
def report(request, tmp_path_factory):
    """The file of a page."""
    if request.param == DEMO:
        file = request.config.rootpath / DEMO
        if not file.exists():
            pytest.skip(f"no {DEMO} here: `make demo` makes it")
        return file
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(html_of(request.param))
    return file


@pytest.fixture(scope="module")
def opened(chromium, report):
    """A tab with that page, first on a phone in the dark, for all tests of it."""
    with Visit(chromium, report, NARROW, color_scheme="dark") as visit:
        yield visit.draw()


def test_every_chart_is_drawn_at_both_widths_and_asks_for_nothing(opened):
    assert opened.faults() == []
    opened.resize(WIDE)
    assert opened.faults() == []


def test_every_list_has_its_effect(opened):
    assert opened.idle_selectors() == []


def test_choices_outlast_a_change_of_width(opened):
    opened.choose_last()
    chosen = opened.state()
    opened.resize(NARROW)
    assert opened.state() == chosen
    assert opened.faults() == []
    opened.resize(WIDE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_in_charts_stand_out_from_the_paper(opened, scheme):
    opened.tab.emulate_media(color_scheme=scheme)
    assert opened.faint() == []


def test_without_javascript_the_answer_and_the_tables_are_there(chromium, report):
    with Visit(chromium, report, NARROW, java_script_enabled=False) as visit:
        assert visit.complaints == []
        assert visit.tab.locator("#answer .headline").is_visible()
        assert visit.tab.locator("#answer table").first.is_visible()
        visit.tab.locator("summary", has_text="All numbers").first.click()
        assert visit.tab.locator("details[open] table").first.is_visible()
        assert "need JavaScript" in visit.tab.locator("noscript").inner_text()
        assert visit.tab.locator("figcaption").first.is_visible()


def test_pages_of_single_figures_are_drawn(chromium, tmp_path):
    figures = every_figure("two models")
    assert len(figures) > 4
    for figure in figures:
        with opened_with(chromium, tmp_path, figure.packed()) as visit:
            assert visit.faults() == [], figure.name
            assert len(visit.charts()) == 1


def test_a_single_figure_without_javascript_says_where_the_picture_is(chromium, tmp_path):
    with opened_with(chromium, tmp_path, small_chart(), java_script_enabled=False) as visit:
        assert visit.complaints == []
        assert "lies beside this file as SVG and PNG" in visit.tab.locator("noscript").inner_text()


# From here on: what the helpers must find in a page that is not in order.


def test_a_small_chart_in_order_has_no_faults_and_forgets_when_loaded_anew(chromium, tmp_path):
    with opened_with(chromium, tmp_path, small_chart()) as visit:
        assert visit.faults() == []
        assert visit.idle_selectors() == []
        visit.choose_last()
        chosen = visit.state()
        assert chosen["small"][0] == [1]
        visit.tab.reload()
        assert visit.draw().state() != chosen
        assert visit.faults() == []


def idle_list(spec):
    spec["params"].append(dropdown("idle", "Idle", {"a": "a", "b": "b"}))


def option_without_data(spec):
    for kind in ("options", "labels"):
        spec["params"][0]["bind"][kind].append("absent")


def faint_words(spec):
    spec["spec"]["encoding"]["x"]["axis"] = {"labelColor": "var(--paper)"}


SPOILT = {
    "says NaN": (
        lambda spec: spec["spec"]["encoding"]["x"].update(axis={"labelExpr": "'NaN'"}),
        "says 'NaN'",
    ),
    "too wide": (lambda spec: spec["usermeta"].update(panels=1), "with room for"),
    "too low": (lambda spec: spec["spec"].update(height=10), "large"),
    "no words": (lambda spec: spec.pop("description"), "no alternative text"),
    "list without effect": (idle_list, "idle changes nothing"),
    "option without data": (option_without_data, "no marks (option 2)"),
    "faint words": (faint_words, "contrast 1.0"),
}


def test_spoilt_charts_are_found_out(chromium, tmp_path):
    charts = [small_chart(name) for name in SPOILT]
    for chart, (spoil, _) in zip(charts, SPOILT.values(), strict=True):
        spoil(chart)
    with opened_with(chromium, tmp_path, small_chart("in order"), *charts) as visit:
        found = [*visit.faults(), *visit.idle_selectors(), *visit.faint()]
    assert not [fault for fault in found if fault.startswith("in order")]
    for name, (_, told) in SPOILT.items():
        assert any(fault.startswith(name) and told in fault for fault in found), (name, found)


def test_what_is_missing_from_a_chart_is_found_out(chromium, tmp_path):
    with opened_with(chromium, tmp_path, small_chart()) as visit:
        told = "small: 1 of 2 panels are empty"
        panel = "document.querySelector('.role-mark.mark-symbol').replaceChildren()"
        visit.tab.evaluate(panel)
        assert visit.faults() == [told]
        visit.tab.evaluate("document.querySelector('.controls').replaceChildren()")
        assert visit.faults() == ["small: 0 lists for 1 parameters", told]
        visit.tab.evaluate("document.querySelector('.canvas').replaceChildren()")
        assert visit.faults() == ["small: not drawn"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mark": "blot"}, "small: not drawn"),
        ({"encoding": {"blot": {"field": "x"}}}, "console warning"),
    ],
    ids=str,
)
def test_a_chart_that_vega_does_not_understand_is_found_out(chromium, tmp_path, changes, told):
    chart = small_chart()
    chart["spec"] |= changes
    with opened_with(chromium, tmp_path, chart) as visit:
        found = visit.faults()
    assert any(told in fault for fault in found), found
    assert any(fault.startswith(("console", "script failed")) for fault in found)


FORBIDDEN = {
    '<img src="https://example.org/x.png" alt="">': "asks for https://example.org/x.png",
    '<img src="beside.png" alt="">': "beside.png",
    '<link rel="stylesheet" href="http://example.org/x.css">': "asks for http://example.org/x.css",
    "<style>p { background: url(https://example.org/y.png) }</style><p>": "example.org/y.png",
    "<style>@font-face { font-family: far; src: url(https://example.org/z) } "
    "em { font-family: far }</style><em>far</em>": "asks for https://example.org/z",
    '<script src="https://example.org/x.js"></script>': "asks for https://example.org/x.js",
    '<script>fetch("https://example.org/f").catch(() => 0)</script>': "https://example.org/f",
    '<script>navigator.sendBeacon("https://example.org/b")</script>': "https://example.org/b",
    '<script>new WebSocket("wss://example.org/s")</script>': "asks for wss://example.org/s",
    '<iframe src="https://example.org/frame"></iframe>': "asks for https://example.org/frame",
    '<script>console.warn("a warning")</script>': "console warning: a warning",
    '<script>console.error("an error")</script>': "console error: an error",
    "<script>nothing.at.all</script>": "script failed: nothing is not defined",
    '<script>Promise.reject(new Error("a promise"))</script>': "script failed: a promise",
    '<div style="width: 3000px">wide</div>': "wide in a window of 1280",
    "<table><tr><td>nan</td></tr></table>": "a cell says nan",
}


def test_whatever_a_page_must_not_have_is_found_out(chromium, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(f'<!doctype html><link rel="icon" href="data:,">{"".join(FORBIDDEN)}')
    with Visit(chromium, file, WIDE) as visit:
        visit.tab.wait_for_load_state()
        visit.tab.wait_for_timeout(200)
        found = visit.faults()
    assert "the page has no chart" in found
    for html, told in FORBIDDEN.items():
        assert any(told in fault for fault in found), html


def test_no_request_gets_past_the_visit(chromium, tmp_path):
    """Not even to a server on this machine, which could answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        file = tmp_path / "report.html"
        file.write_text(f'<img src="http://127.0.0.1:{server.getsockname()[1]}/x.png" alt="">')
        with Visit(chromium, file, WIDE) as visit:
            visit.tab.wait_for_timeout(100)
            assert any("asks for http://127.0.0.1" in what for what in visit.complaints)
        with pytest.raises(TimeoutError):
            server.accept()
