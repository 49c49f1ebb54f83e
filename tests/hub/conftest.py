"""A hub, and a machine that may ask it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from client import Client
from server import Hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def client(tmp_path: Path, hub: Hub) -> Client:
    return Client(tmp_path / "home", hub.endpoint)
