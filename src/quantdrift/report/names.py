"""What figures, tables and sentences call the things of a study, and in which order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

ROLES = ("q", "k", "v", "o", "gate", "up", "down")
DISTANCES = {
    "swd": "sliced Wasserstein (SWD)",
    "tswd": "tree-sliced Wasserstein (TSWD)",
    "betti": "Betti curves",
    "landscape": "landscapes",
    "pi": "persistence images",
    "pfd": "Fisher-Rao (PFD)",
    "entropy": "persistent entropy",
}
THIRDS = ("early", "middle", "late")


@dataclass(frozen=True)
class ModelFacts:
    """What the page says about a model."""

    id: str
    label: str
    license: str
    regauge_seed: int | None
    source: str


@dataclass(frozen=True)
class Names:
    """The schemes and models of a study, in its order.

    Attributes:
        schemes: scheme id, level, variant of each scheme.
        models: id, label, licence, regauge seed and source of each model.
    """

    schemes: tuple[tuple[str, str, str], ...]
    models: tuple[ModelFacts, ...]

    @staticmethod
    def of(levels: Iterable[Sequence[str]], models: Iterable[Sequence[Any]]) -> "Names":
        """From the plain lists that the workflow hands to its scripts."""
        return Names(
            tuple((scheme, level, variant) for scheme, level, variant in levels),
            tuple(ModelFacts(*facts) for facts in models),
        )

    @property
    def levels(self) -> list[str]:
        """Labels of the levels, each once, in the study's order."""
        return list(dict.fromkeys(level.upper() for _, level, _ in self.schemes))

    @property
    def variants(self) -> list[str]:
        """The variants, each once, in the study's order."""
        return list(dict.fromkeys(variant for _, _, variant in self.schemes))

    @property
    def leading(self) -> dict[str, str]:
        """For each level the scheme that speaks for it: the first the study names."""
        found: dict[str, str] = {}
        for scheme, level, _ in self.schemes:
            found.setdefault(level.upper(), scheme)
        return found

    def label(self, model_id: str) -> str:
        """A model's label."""
        return next((model.label for model in self.models if model.id == model_id), model_id)

    def described(self, rows: pd.DataFrame) -> pd.DataFrame:
        """`rows` of known schemes with their level and variant, in the study's order."""
        order = pd.DataFrame(list(self.schemes), columns=["scheme", "level", "variant"])
        order["scheme_order"] = range(len(order))
        order["level"] = order["level"].str.upper()
        described = rows.drop(columns=["level", "variant"], errors="ignore").merge(order)
        described["role_order"] = described["role"].map(role_order)
        described["model_order"] = described["model"].map([m.id for m in self.models].index)
        orders = ["model_order", "scheme_order", "role_order"]
        by = [*orders, *(["block"] if "block" in described else [])]
        return described.sort_values(by, kind="stable", ignore_index=True).drop(columns=orders)


def role_order(role: str) -> int:
    """Where a role stands among the projections of a block."""
    return ROLES.index(role)


def role_label(role: str) -> str:
    """Q, K, V, O in capitals as papers write them; the others as words."""
    return role.upper() if len(role) == 1 else role


def third(block: int, n_blocks: int) -> str:
    """Early, middle or late: the third of the model that a block lies in."""
    return THIRDS[block * 3 // n_blocks]


def reading(filtration: str, threshold: float) -> str:
    """A filtration in words."""
    return filtration if filtration == "full" else f"{filtration} at {threshold:g}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """`a, b and c`."""
    words = list(words)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
