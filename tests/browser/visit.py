"""A page opened in a browser, and what is wrong with it, in words: nothing wrong is `[]`."""

import time
from pathlib import Path
from typing import Any

SECONDS_TO_DRAW = 20
SMALLEST = (200, 100)
"""A chart of fewer pixels shows nothing."""
LEAST_CONTRAST = 3.0
"""Of text in a chart with the paper below it: WCAG's least for large text and graphics."""
NARROW_ROOM = 360
"""With less room a long tick label may make a chart scroll in its own box."""

# Vega draws in promises, which have all been kept when the next timer rings.
_SETTLED = "new Promise(done => setTimeout(() => setTimeout(done)))"

_DRAWN = """() => [...document.querySelectorAll('figure.chart .canvas')].every(
    canvas => canvas.querySelector('svg .role-mark:not(.mark-group) > *'))"""

_OVERFLOW = """() => {
    const root = document.documentElement;
    return {content: root.scrollWidth, window: root.clientWidth};
}"""

_BAD_CELLS = """() => [...document.querySelectorAll('td, th, dd, li')]
    .map(cell => cell.textContent.trim())
    .filter(text => /\\b(NaN|nan|undefined|null|Infinity)\\b|^(None|inf)$/.test(text))"""

# What stands in one chart. Marks are what shows data: not axes, titles and legends.
_SURVEY = """figure => {
    const svg = figure.querySelector('.canvas svg');
    const spec = JSON.parse(figure.querySelector('script').textContent);
    const bound = (spec.params ?? []).filter(param => param.bind).length;
    const selects = figure.querySelectorAll('.controls select').length;
    const found = {id: figure.id, bound, selects};
    if (!svg) return {...found, drawn: false};
    const box = svg.getBoundingClientRect();
    const extent = mark => { const at = mark.getBBox(); return at.width + at.height; };
    const marks = [...svg.querySelectorAll('.role-mark:not(.mark-group) > *')];
    // Vega-Lite's classes of what holds data; headers and legends are scopes too.
    const holders = [...svg.querySelectorAll('.role-scope')].filter(
        scope => /cell|concat_|pathgroup/.test(scope.getAttribute('class')));
    const panels = holders.flatMap(scope => [...scope.children]);
    const words = [...svg.querySelectorAll('text')].map(text => text.textContent);
    words.push(...[...figure.querySelectorAll('[aria-label]')].map(e => e.ariaLabel));
    const geometry = [...svg.querySelectorAll('*')].flatMap(element =>
        ['d', 'transform', 'x', 'y', 'x2', 'y2', 'width', 'height', 'opacity'].map(
            name => element.getAttribute(name) ?? ''));
    return {
        ...found,
        drawn: true,
        size: [box.width, box.height],
        room: figure.querySelector('.canvas').clientWidth,
        marks: marks.filter(mark => extent(mark) > 0).length,
        panels: panels.length,
        emptyPanels: panels.filter(
            panel => !panel.querySelector('.role-mark:not(.mark-group) > *')).length,
        described: figure.querySelector('.canvas').ariaLabel === spec.description,
        badWords: words.filter(word => /\\b(NaN|undefined|null|Infinity)\\b/.test(word)),
        badGeometry: geometry.filter(value => /NaN|undefined|null|Infinity/.test(value)),
    };
}"""

# All that the eye sees change: shapes, places, shades and words; not the labels read aloud.
_LOOK = """figure => {
    const svg = figure.querySelector('.canvas svg');
    return [...svg.querySelectorAll('path, line, text, rect, circle')].map(element =>
        ['d', 'transform', 'x2', 'y2', 'width', 'height', 'opacity', 'fill', 'stroke'].map(
            name => element.getAttribute(name)).join() + element.textContent).join(';');
}"""

# The data that marks stand for, as they are read aloud: the same at every width.
_TOLD = """figure => [...figure.querySelectorAll('.role-mark:not(.mark-group) > *')].map(
    mark => mark.getAttribute('aria-label') ?? '').sort()"""

_FAINTEST = """figure => {
    const channels = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = colour => channels(colour).map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
    const paper = light(getComputedStyle(document.body).backgroundColor);
    return Math.min(...[...figure.querySelectorAll('.canvas svg text')].map(text => {
        const ink = light(getComputedStyle(text).fill);
        return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    }));
}"""


class Visit:
    """A tab that shows one file and notes all that it complains of or asks for."""

    def __init__(self, browser: Any, file: Path, width: int = 1280, **context: Any) -> None:
        self.url = file.as_uri()
        self.complaints: list[str] = []
        """What console, scripts and network had to say: of a good page, nothing."""
        viewport = {"width": width, "height": 800}
        self.context = browser.new_context(viewport=viewport, offline=True, **context)
        self.context.route("**/*", self._route)
        self.tab = self.context.new_page()
        self.tab.on("request", self._note_request)
        self.tab.on("websocket", lambda socket: self._complain(f"asks for {socket.url}"))
        self.tab.on("requestfailed", lambda its: self._complain(f"did not get {its.url}"))
        self.tab.on("console", self._note_console)
        self.tab.on("pageerror", lambda error: self._complain(f"script failed: {error}"))
        self.tab.on("crash", lambda _: self._complain("the tab crashed"))
        self.tab.on("dialog", lambda dialog: self._complain(f"dialog: {dialog.message}"))
        self.tab.goto(self.url)

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def _complain(self, what: str) -> None:
        self.complaints.append(what)

    def _is_own(self, url: str) -> bool:
        """A page that is one file needs no other file either."""
        return url.partition("#")[0] == self.url or url.startswith(("data:", "blob:"))

    def _route(self, route: Any) -> None:
        if self._is_own(route.request.url):
            route.continue_()
        else:
            route.abort()

    def _note_request(self, request: Any) -> None:
        if not self._is_own(request.url):
            self._complain(f"asks for {request.url}")

    def _note_console(self, message: Any) -> None:
        if message.type not in ("log", "info", "debug"):
            self._complain(f"console {message.type}: {message.text}")

    def charts(self) -> list[Any]:
        """The figures of the page, whatever they are."""
        return self.tab.locator("figure.chart").all()

    def drawn(self) -> bool:
        """Every chart has marks."""
        return self.tab.evaluate(_DRAWN)

    def draw(self) -> "Visit":
        """Wait until every chart is drawn; give up as soon as something went wrong."""
        self._until(lambda: self.complaints or self.drawn())
        self.tab.evaluate(_SETTLED)
        return self

    def resize(self, width: int) -> None:
        """Another width, and wait until each chart that has more or less room is drawn anew."""
        self.tab.evaluate("""() => document.querySelectorAll('.canvas').forEach(canvas => {
            canvas.widthBefore = canvas.clientWidth;
            canvas.svgBefore = canvas.querySelector('svg');
        })""")
        self.tab.set_viewport_size({"width": width, "height": 800})
        self._until(
            lambda: (
                self.complaints
                or self.tab.evaluate("""() => [...document.querySelectorAll('.canvas')].every(
                canvas => Math.abs(canvas.clientWidth - canvas.widthBefore) < 4
                    || canvas.querySelector('svg') !== canvas.svgBefore)""")
            )
        )
        self.draw()

    def _until(self, reached: Any) -> None:
        end = time.monotonic() + SECONDS_TO_DRAW
        while not reached() and time.monotonic() < end:
            self.tab.wait_for_timeout(40)

    def faults(self) -> list[str]:
        """All that is wrong with the page as it stands."""
        found = list(self.complaints)
        charts = self.charts()
        if not charts:
            found.append("the page has no chart")
        for chart in charts:
            found += chart_faults(chart.evaluate(_SURVEY))
        wide = self.tab.evaluate(_OVERFLOW)
        if wide["content"] > wide["window"]:
            found.append(f"the page is {wide['content']} wide in a window of {wide['window']}")
        return found + [f"a cell says {text}" for text in self.tab.evaluate(_BAD_CELLS)]

    def faint(self) -> list[str]:
        """Charts with words that can hardly be read on this paper."""
        contrasts = {c.get_attribute("id"): c.evaluate(_FAINTEST) for c in self.charts()}
        return [
            f"{name}: contrast {contrast:.1f}"
            for name, contrast in contrasts.items()
            if contrast < LEAST_CONTRAST
        ]

    def choose(self, select: Any, at: int) -> None:
        """Take an option, as a reader does, and wait until it has its effect."""
        select.select_option(index=at)
        self.tab.evaluate(_SETTLED)

    def idle_selectors(self) -> list[str]:
        """Choose every option of every list: names lists that change nothing, and all faults."""
        found = []
        for chart in self.charts():
            for select in chart.locator(".controls select").all():
                looks, faults = self._looks(chart, select)
                found += faults
                if len(looks) == 1:
                    name = select.get_attribute("name")
                    found.append(f"{chart.get_attribute('id')}: {name} changes nothing")
        return found + self.complaints

    def _looks(self, chart: Any, select: Any) -> tuple[set[str], list[str]]:
        """The different drawings that a list leads to, and what is wrong with any of them."""
        looks, faults = set(), []
        for at in reversed(range(n_options(select))):
            self.choose(select, at)
            looks.add(chart.evaluate(_LOOK))
            faults += [f"{f} (option {at})" for f in chart_faults(chart.evaluate(_SURVEY))]
        return looks, faults

    def choose_last(self) -> None:
        """Move every list of every chart to its last option."""
        for select in self.tab.locator(".controls select").all():
            self.choose(select, n_options(select) - 1)

    def state(self) -> dict[str, Any]:
        """What is chosen in each chart, and the data that its marks stand for."""
        chosen = "figure => [...figure.querySelectorAll('select')].map(s => s.selectedIndex)"
        return {
            chart.get_attribute("id"): (chart.evaluate(chosen), chart.evaluate(_TOLD))
            for chart in self.charts()
        }


def n_options(select: Any) -> int:
    """How many options a list offers."""
    return select.locator("option").count()


def chart_faults(chart: dict[str, Any]) -> list[str]:
    """What is wrong with one chart, from what was found in it."""
    if not chart["drawn"]:
        return [f"{chart['id']}: not drawn"]
    found = []
    if chart["selects"] != chart["bound"]:
        found.append(f"{chart['selects']} lists for {chart['bound']} parameters")
    if not chart["marks"]:
        found.append("no marks")
    if chart["emptyPanels"]:
        found.append(f"{chart['emptyPanels']} of {chart['panels']} panels are empty")
    if any(side < least for side, least in zip(chart["size"], SMALLEST, strict=True)):
        found.append(f"only {chart['size']} large")
    if chart["size"][0] > max(chart["room"], NARROW_ROOM) + 1:
        found.append(f"{chart['size'][0]} wide, with room for {chart['room']}")
    if not chart["described"]:
        found.append("no alternative text")
    found += [f"says {word!r}" for word in chart["badWords"][:3]]
    found += [f"draws at {value!r}" for value in chart["badGeometry"][:3]]
    return [f"{chart['id']}: {what}" for what in found]
