"""kill -9 at a random moment, unlock, run again: the tables are those of an undisturbed run."""

import os
import random
import signal
import time

import pytest
from study import Study

pytestmark = pytest.mark.workflow


@pytest.mark.parametrize(
    ("seed", "kill"),
    [pytest.param(1, os.killpg, id="all"), pytest.param(2, os.kill, id="driver")],
)
def test_killed_run_resumes_to_the_same_bytes(finished: Study, new_study, seed, kill):
    """Once everything is killed, once the driver alone, whose jobs then go on without it."""
    study = new_study()
    running = study.start()
    deadline = time.monotonic() + 120
    shards = study.folder / "results/shards"
    wanted = random.Random(seed).randint(3, 45)  # kill once so many shards stand
    while running.poll() is None and len(list(shards.rglob("*.parquet"))) < wanted:
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.05)
    assert running.poll() is None, "the run ended before it could be killed"
    kill(running.pid, signal.SIGKILL)
    running.wait()
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
