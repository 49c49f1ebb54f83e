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
BOS = {"with": "with BOS", "without": "without BOS"}


@dataclass(frozen=True)
class ModelFacts:
    """What the page says about a model."""

    id: str
    label: str
    license: str
    regauge_seed: int | None
    source: str


@dataclass(frozen=True)
class DatasetFacts:
    """What the page says about a data set."""

    id: str
    label: str
    schema: str
    """Whose columns its items have: arc, hellaswag or winogrande."""
    license: str
    is_ours: bool
    """Its items were written for this project: no published number compares."""


@dataclass(frozen=True)
class Names:
    """The schemes, models and data sets of a study, in its order.

    Attributes:
        schemes: scheme id, level, variant of each scheme.
        models: id, label, licence, regauge seed and source of each model.
        datasets: id, label, schema, licence and origin of each data set; maybe none.
        top: size of the sets of attended positions that are compared.
    """

    schemes: tuple[tuple[str, str, str], ...]
    models: tuple[ModelFacts, ...]
    datasets: tuple[DatasetFacts, ...] = ()
    top: int = 3

    @staticmethod
    def of(
        levels: Iterable[Sequence[str]],
        models: Iterable[Sequence[Any]],
        datasets: Iterable[Sequence[Any]] = (),
        top: int = 3,
    ) -> "Names":
        """From the plain lists that the workflow hands to its scripts."""
        return Names(
            tuple((scheme, level, variant) for scheme, level, variant in levels),
            tuple(ModelFacts(*facts) for facts in models),
            tuple(DatasetFacts(*facts) for facts in datasets),
            top,
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

    def of_model(self, model_id: str) -> str:
        """How a sentence begins that is about one model, where there are several."""
        return f"{self.label(model_id)}: " if len(self.models) > 1 else ""

    @property
    def metrics(self) -> dict[str, str]:
        """The two measures of agreement, as the paper's tables call them."""
        return metric_labels(self.top)

    def dataset_label(self, dataset_id: str) -> str:
        """A data set's label."""
        return next((one.label for one in self.datasets if one.id == dataset_id), dataset_id)

    def described(self, rows: pd.DataFrame) -> pd.DataFrame:
        """`rows` of known schemes with their level and variant, in the study's order."""
        order = pd.DataFrame(list(self.schemes), columns=["scheme", "level", "variant"])
        order["scheme_order"] = range(len(order))
        order["level"] = order["level"].str.upper()
        described = rows.drop(columns=["level", "variant"], errors="ignore").merge(order)
        ranks = {
            "model": [model.id for model in self.models].index,
            "role": role_order,
            "dataset": [one.id for one in self.datasets].index,
        }
        ranks = {name: rank for name, rank in ranks.items() if name in described}
        for name, rank in ranks.items():
            described[f"{name}_order"] = described[name].map(rank)
        orders = [f"{name}_order" for name in ("model", "scheme", *list(ranks)[1:])]
        by = [*orders, *(name for name in ("bos", "block") if name in described)]
        return described.sort_values(by, kind="stable", ignore_index=True).drop(columns=orders)


def metric_labels(top: int) -> dict[str, str]:
    """The two measures of agreement, of sets of `top` positions."""
    return {"top1": "Top-1 agreement", "iou": f"Top-{top} IoU"}


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
