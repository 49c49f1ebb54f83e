"""Colours and type of the page and its charts, in one place for light, dark and print.

In the browser the charts name CSS properties (`var(--ink)`), so a change of theme or a print
recolours them without drawing again. A picture file cannot follow: it gets the light colours.
"""

from typing import Any

LIGHT = {
    "paper": "#fbfaf7",
    "raised": "#f3f1ea",
    "ink": "#22242a",
    "muted": "#5d6069",
    "rule": "#d9d5c9",
    "grid": "#e7e4da",
    "accent": "#9c3d1e",
    "s1": "#1f5f8b",
    "s2": "#b4511f",
    "s3": "#4b7a3a",
    "s4": "#7d4b8f",
    "s5": "#8a6d1d",
    "s6": "#2b7f7a",
    "heat": "#8c2f12",
}
DARK = {
    "paper": "#16181c",
    "raised": "#1f2227",
    "ink": "#e6e3da",
    "muted": "#a3a49f",
    "rule": "#3a3d43",
    "grid": "#2b2e34",
    "accent": "#f0946c",
    "s1": "#74b3e0",
    "s2": "#f09a63",
    "s3": "#93c47d",
    "s4": "#c79bd8",
    "s5": "#d9b65a",
    "s6": "#6cc5bf",
    "heat": "#f7a07a",
}
SERIES = ("s1", "s2", "s3", "s4", "s5", "s6")
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial"


def variable(name: str) -> str:
    """A colour as charts in the browser name it."""
    return f"var(--{name})"


def css(palette: dict[str, str]) -> str:
    """Custom properties of a palette."""
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())


def resolved(spec: Any, palette: dict[str, str]) -> Any:
    """A chart's specification with every `var(--name)` replaced by the palette's colour."""
    if isinstance(spec, dict):
        return {key: resolved(value, palette) for key, value in spec.items()}
    if isinstance(spec, list):
        return [resolved(value, palette) for value in spec]
    if isinstance(spec, str) and spec.startswith("var(--"):
        return palette[spec[6:-1]]
    return spec


def config() -> dict[str, Any]:
    """Vega-Lite's config for all charts."""
    ink, muted, grid, rule = map(variable, ("ink", "muted", "grid", "rule"))
    return {
        "background": None,
        "font": SANS,
        "padding": {"left": 2, "right": 6, "top": 4, "bottom": 4},
        "view": {"stroke": None},
        "axis": {
            "labelColor": muted,
            "titleColor": muted,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 11,
            "gridColor": grid,
            "domainColor": rule,
            "tickColor": rule,
            "labelPadding": 4,
            "titlePadding": 8,
        },
        "header": {
            "labelColor": ink,
            "labelFontSize": 13,
            "labelFontWeight": "bold",
            "title": None,
        },
        "legend": {
            "labelColor": ink,
            "titleColor": muted,
            "titleFontWeight": "normal",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "orient": "top",
            "symbolStrokeWidth": 2,
            "symbolStrokeColor": ink,
            "symbolFillColor": variable("s1"),
            "rowPadding": 2,
            "layout": {"top": {"direction": "vertical", "anchor": "start"}},
        },
        "title": {"color": ink, "anchor": "start", "fontSize": 14, "subtitleColor": muted},
        "range": {"category": [variable(name) for name in SERIES]},
        "line": {"strokeWidth": 1.8, "color": variable("s1")},
        "point": {"size": 34, "filled": True, "color": variable("s1"), "opacity": 1},
    }
