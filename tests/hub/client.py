"""A machine that asks the hub: huggingface_hub with settings and a cache of its own."""

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from huggingface_hub import constants
from huggingface_hub._tree_cache import _IN_MEMORY_TREE_CACHE
from huggingface_hub.utils import close_session

from quantdrift.models import hub
from quantdrift.models.sources import FetchError

CHUNK = 10_000
"""Bytes that huggingface_hub takes at once: a break loses what came of the last ones."""
PROGRAM = """
import json, sys
sys.modules["trio"] = None  # httpx2 loads it where it is: a quarter of a second for nothing
from quantdrift.models import hub

lines = []
about = json.loads(sys.argv[1])
hub._SECONDS_BETWEEN_LINES = about.pop("seconds")
try:
    path = str(hub.fetch_hub(**about, progress=lines.append))
    print(json.dumps({"path": path, "lines": lines}))
except hub.FetchError as error:
    print(json.dumps({"error": str(error)}))
"""


class Fetched(NamedTuple):
    """Where a snapshot lies, and what was said on the way."""

    path: Path
    lines: list[str]

    @property
    def files(self) -> set[str]:
        return {
            file.relative_to(self.path).as_posix()
            for file in self.path.rglob("*")
            if file.is_file()
        }


class Client:
    """A machine with a cache of its own."""

    def __init__(self, home: Path, endpoint: str) -> None:
        self.home, self.endpoint = home, endpoint

    def environment(self, **more: str) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))
            and "proxy" not in name.lower()
        }
        # The loopback has no xet.
        about = {"HF_HOME": str(self.home), "HF_ENDPOINT": self.endpoint, "HF_HUB_DISABLE_XET": "1"}
        return inherited | about | more

    def start(
        self, repository: str, revision: str, environment: dict[str, str], **about: Any
    ) -> "subprocess.Popen[str]":
        """A process of its own that asks."""
        question = {"repository": repository, "revision": revision, "seconds": 5} | about
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, json.dumps(question)],
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fetch(
        self,
        repository: str,
        revision: str = "main",
        *,
        environment: dict[str, str] | None = None,
        seconds: float = 5,
        **about: Any,
    ) -> Fetched:
        """What fetch_hub gives, in this process and without pauses: one of its own takes longer."""
        lines: list[str] = []
        noise = io.StringIO()
        with self._settings(environment or {}), pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "sleep", lambda _seconds: None)  # before the hub is asked again
            patch.setattr(hub, "_SECONDS_BETWEEN_LINES", seconds)
            with contextlib.redirect_stderr(noise):
                path = hub.fetch_hub(
                    repository=repository, revision=revision, progress=lines.append, **about
                )
        assert noise.getvalue() == ""
        return Fetched(path, lines)

    @contextlib.contextmanager
    def _settings(self, environment: dict[str, str]) -> Iterator[None]:
        """huggingface_hub as a new process with this environment has it."""
        old = dict(os.environ)
        try:
            os.environ.clear()
            os.environ.update(self.environment(**environment))
            importlib.reload(constants)
            constants.DOWNLOAD_CHUNK_SIZE = CHUNK
            _IN_MEMORY_TREE_CACHE.clear()
            yield
        finally:
            close_session()
            os.environ.clear()
            os.environ.update(old)
            importlib.reload(constants)

    def cached(self, pattern: str) -> list[Path]:
        """Files in the cache of this machine."""
        return sorted((self.home / "hub").glob(f"*--*/blobs/{pattern}"))


def answer(process: "subprocess.Popen[str]") -> Fetched:
    """What a process says in the end."""
    said, noise = process.communicate(timeout=60)
    assert process.returncode == 0, noise
    assert noise == ""
    found = json.loads(said)
    if "error" in found:
        raise FetchError(found["error"])
    return Fetched(Path(found["path"]), found["lines"])
