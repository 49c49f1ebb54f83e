from quantdrift.tables.benchmarks import timings
from quantdrift.tables.io import write
from quantdrift.tables.topology import TIMINGS

HEAD = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def test_benchmark_files_become_rows(tmp_path):
    files = {"diagrams/m/q.tsv": "1.5\t0:00:01\t100.5\t-\t-\t-\t0\t0\t60\t1.25\n"}
    files["weights/m.tsv"] = "0.04\t0:00:00\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA\n"
    files["weights/cut.tsv"] = ""
    for name, line in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(HEAD + line)
    (tmp_path / "weights/empty.tsv").write_text("")
    names = [*files, "weights/empty.tsv", "gone/m.tsv"]
    rows = timings(tmp_path, [tmp_path / name for name in names])
    assert rows == [
        {
            "stage": "diagrams",
            "job": "diagrams/m/q.tsv",
            "seconds": 1.5,
            "cpu_seconds": 1.25,
            "peak_mib": 100.5,
        },
        {
            "stage": "weights",
            "job": "weights/m.tsv",
            "seconds": 0.04,
            "cpu_seconds": None,
            "peak_mib": None,
        },
    ]
    assert write(TIMINGS, rows, tmp_path / "timings.parquet", {}).num_rows == 2
