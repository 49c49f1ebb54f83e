import subprocess
import sys

from quantdrift.tables.io import write
from quantdrift.tables.topology import TIMINGS
from quantdrift.tables.usage import timings

JOB = """
from pathlib import Path
from quantdrift import job
job.start({log!r}, 1)
from time import process_time
spare = bytearray(200 * 2**20)
while process_time() < 1:
    pass
"""


def test_a_job_leaves_its_time_and_its_peak_to_the_end(tmp_path):
    log = tmp_path / "diagrams" / "m" / "q.log"
    subprocess.run([sys.executable, "-c", JOB.format(log=str(log))], check=True)
    (row,) = timings(tmp_path, [log])
    assert (row["stage"], row["job"]) == ("diagrams", "diagrams/m/q.log")
    assert 1 <= row["cpu_seconds"] < 10
    assert row["cpu_seconds"] <= row["seconds"] + 0.1
    assert 200 < row["peak_mib"] < 600
    assert write(TIMINGS, [row], tmp_path / "timings.parquet", {}).num_rows == 1


def test_a_failed_job_leaves_its_record_too(tmp_path):
    log = tmp_path / "diagrams" / "q.log"
    script = f"from quantdrift import job; job.start({str(log)!r}, 1); raise ValueError('no')"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 1
    assert len(timings(tmp_path, [log])) == 1


def test_records_that_are_gone_or_cut_are_passed_over(tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "cut.usage.json").write_text('{"seconds": 1.')
    logs = [tmp_path / "weights" / "cut.log", tmp_path / "weights" / "gone.log"]
    assert timings(tmp_path, logs) == []
