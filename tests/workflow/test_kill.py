"""kill -9 at a random moment, unlock, run again: the tables are those of an undisturbed run."""

import os
import random
import signal
import time
from collections.abc import Callable

import pytest
from study import Study

pytestmark = pytest.mark.workflow


def killed(study: Study, kill: Callable[[int, int], None], n_shards: int) -> None:
    """Start a run, and kill it once so many shards stand."""
    running = study.start()
    deadline = time.monotonic() + 120
    shards = study.folder / "results/shards"
    while running.poll() is None and len(list(shards.rglob("*.parquet"))) < n_shards:
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.05)
    assert running.poll() is None, "the run ended before it could be killed"
    kill(running.pid, signal.SIGKILL)
    running.wait()


def test_killed_run_resumes_to_the_same_bytes(finished: Study, new_study):
    """Once everything is killed, once the driver alone, whose jobs then go on without it."""
    study, chance = new_study(), random.Random(1)
    for kill, n_shards in (
        (os.killpg, chance.randint(3, 20)),
        (os.kill, chance.randint(25, 45)),
    ):
        killed(study, kill, n_shards)
        blocked = study.run("--rerun-incomplete", check=False)
        assert blocked.returncode != 0
        assert "locked" in (blocked.stdout + blocked.stderr).lower()
        unlocked = study.unlock()
        assert unlocked.returncode == 0
        assert "unlocking" in unlocked.stdout
    study.run("--rerun-incomplete")
    assert study.tables() == finished.tables()


def test_unlock_refuses_while_a_run_is_alive(new_study):
    study = new_study()
    running = study.start()
    try:
        done = study.unlock()
        assert done.returncode == 1
        assert f"process {running.pid}" in done.stdout
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
