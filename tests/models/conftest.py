"""The demo model as `prepare` makes it, once for all tests."""

from typing import Any, NamedTuple

import pytest
from tiny_models import silent


class Prepared(NamedTuple):
    directory: Any
    records: dict[str, Any]


def _prepared(demo_gguf, directory, seed) -> Prepared:
    from quantdrift.models.checkpoint import prepare

    records = prepare(demo_gguf, directory, regauge_seed=seed, progress=silent)
    return Prepared(directory, {record.tensor: record for record in records})


@pytest.fixture(scope="session")
def demo_as_it_came(demo_gguf, tmp_path_factory) -> Prepared:
    """The demo model on the lattice of Q4_1, as it was published."""
    return _prepared(demo_gguf, tmp_path_factory.mktemp("raw") / "model", None)


@pytest.fixture(scope="session")
def demo_regauged(demo_gguf, tmp_path_factory) -> Prepared:
    """The demo model as the demo study measures it."""
    return _prepared(demo_gguf, tmp_path_factory.mktemp("regauged") / "model", 0)
