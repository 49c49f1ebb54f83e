"""A figure as a value, and the five files it becomes: page, drawing, picture, data, specification.

Charts carry `usermeta`: title, caption, alternative text, and `panels`: how many stand side by
side, from which the page's script works out how wide each is on the screen at hand.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..tables.io import write_bytes, write_text
from . import theme

VEGA_LITE = "6.4"
TEMPLATES = Path(__file__).parent
_DIGITS = 4
_EMBED = "window.vegaEmbed = vegaEmbed;"


@dataclass(frozen=True)
class Figure:
    """One figure, interactive and still."""

    name: str
    title: str
    caption: str
    alt: str
    """What a reader who cannot see it should know."""
    spec: dict[str, Any]
    """Vega-Lite, with its controls."""
    still: dict[str, Any]
    """The same without controls, for SVG and PNG."""
    data: pd.DataFrame
    """What is plotted."""
    panels: int = 1
    """Panels side by side where there is room."""
    still_shows: str = ""
    """What the still chart shows of all that the controls offer."""

    def packed(self) -> dict[str, Any]:
        """The specification with all that a page needs to show it."""
        about = {
            name: getattr(self, name) for name in ("name", "title", "caption", "alt", "panels")
        }
        return self.spec | {"usermeta": about, "description": self.alt, "config": theme.config()}


def _titled(figure: Figure) -> dict[str, Any]:
    title = {"text": figure.title, "offset": 14}
    return title | {"subtitle": figure.still_shows} if figure.still_shows else title


def save(figure: Figure, html: Path, svg: Path, png: Path, data: Path, spec: Path) -> None:
    """Write all files of a figure."""
    packed = figure.packed()
    drawn = theme.resolved(
        figure.still
        | {"config": theme.config() | {"background": theme.variable("paper")}}
        | {"description": figure.alt, "title": _titled(figure)},
        theme.LIGHT,
    )
    write_text(json.dumps(packed), spec)
    write_text(render("figure.html.jinja", figures=[packed]), html)
    write_text(vl_convert.vegalite_to_svg(drawn, vl_version=VEGA_LITE), svg)
    write_bytes(vl_convert.vegalite_to_png(drawn, vl_version=VEGA_LITE, scale=2), png)
    write_text(rounded(figure.data).to_csv(index=False), data)


def render(template: str, **values: Any) -> str:
    """A page from one of our templates, with everything it needs inside it."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_typeset,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        light=Markup(theme.css(theme.LIGHT)),
        dark=Markup(theme.css(theme.DARK)),
        vega=Markup(_bundle()),
        json_of=_json,
        **values,
    )


def rounded(data: pd.DataFrame) -> pd.DataFrame:
    """Floats with four significant digits: more than a screen shows, a third of the bytes."""

    def short(value: float) -> float:
        return float(f"{value:.{_DIGITS}g}")

    floats = [str(name) for name in data if pd.api.types.is_float_dtype(data[name])]
    return data.assign(**{name: data[name].map(short, na_action="ignore") for name in floats})


def csv_data(data: pd.DataFrame) -> dict[str, Any]:
    """Vega-Lite data as CSV text: no column name is repeated in every row."""
    kinds = {
        name: "number" if pd.api.types.is_numeric_dtype(data[name]) else "string" for name in data
    }
    return {"values": rounded(data).to_csv(index=False), "format": {"type": "csv", "parse": kinds}}


def dropdown(name: str, label: str, options: dict[str, str]) -> dict[str, Any]:
    """A Vega-Lite parameter that a reader chooses from a list; the first is set."""
    bound = {"input": "select", "options": list(options), "labels": list(options.values())}
    return {"name": name, "value": next(iter(options)), "bind": bound | {"name": label}}


def choices(values: pd.Series) -> dict[str, str]:
    """What a column holds, each once, as the options of a list."""
    return {str(value): str(value) for value in dict.fromkeys(values)}


def constants(params: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same parameters fixed at their values."""
    return [{"name": param["name"], "value": param["value"]} for param in params]


def _typeset(value: Any) -> Any:
    """Text of a page with the apostrophes of a printed page."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return re.sub(r"(?<=\w)'", "’", value)
    return value


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that cannot end the element it stands in."""
    return vl_convert.javascript_bundle(_EMBED, vl_version=VEGA_LITE).replace(
        "</script", "<\\/script"
    )


def _json(value: Any) -> Markup:
    """JSON that cannot end the <script> it stands in."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
