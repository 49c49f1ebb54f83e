"""Working directories with a tiny study in them."""

from collections.abc import Callable

import pytest
from study import Study, write_tiny_model


@pytest.fixture(scope="module")
def new_study(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Study]:
    """Makes working directories that share one tiny model."""
    model = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny-llama")
    return lambda: Study(tmp_path_factory.mktemp("study"), model)


@pytest.fixture(scope="module")
def finished(new_study: Callable[[], Study]) -> Study:
    """A tiny study that ran to its page."""
    study = new_study()
    study.run()
    return study
