"""Working directories with a tiny study in them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from study import Study, write_tiny_model


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of this test run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def tiny_model(shared: Path) -> Path:
    """One tiny model, written by whoever needs it first."""
    with FileLock(shared / "tiny_model.lock"):
        directory = shared / "model" / "tiny-llama"
        return directory if directory.exists() else write_tiny_model(directory)


@pytest.fixture(scope="module")
def new_study(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Callable[[], Study]:
    """Makes working directories that share the tiny model."""
    return lambda: Study.new(tmp_path_factory.mktemp("study"), tiny_model)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, shared: Path, tiny_model: Path) -> Study:
    """A tiny study that ran to its page: run once, and copied for every module."""
    first, done = shared / "finished", shared / "finished.done"
    with FileLock(shared / "finished.lock"):
        if not done.exists():
            Study.new(first, tiny_model).run()
            done.touch()
    return Study.copy(first, tmp_path_factory.mktemp("study"), tiny_model)
