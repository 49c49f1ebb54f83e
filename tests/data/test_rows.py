"""Rows of files, and errors that name the file and the place."""

import bz2
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdrift.data.rows import DataError, file_rows, local_file, matching, own_rows

ROWS = [{"question": "Is it — wet?", "n": 1}, {"question": "no\u2028break", "n": 2}]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def test_all_kinds_of_file_give_the_same_rows(tmp_path):
    """R9: Parquet and JSON lines, no loading scripts, no remote code."""
    content = LINES.encode()
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "windows.jsonl").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n\r\n"))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.jsonl.bz2").write_bytes(bz2.compress(content))
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    folder = tmp_path / "split=test"  # is no column
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet")
    files = [file for file in sorted(tmp_path.rglob("*")) if file.is_file()]
    assert len(files) == 6
    for file in files:
        assert file_rows(file) == ROWS, file


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            b'{"a": 1}\n\n{"a": }\n',
            r"a\.jsonl, line 3: no JSON .*column 7\): '\{\"a\": ",
        ),
        ("a.jsonl", b'{"a": 1}\n[1]\n', r"a\.jsonl, line 2: list, where an object"),
        ("a.jsonl", b"\n \n", r"a\.jsonl has no rows"),
        ("a.jsonl", b"\xff\xfe", r"a\.jsonl is not UTF-8"),
        ("a.jsonl.gz", b"no archive", r"a\.jsonl\.gz cannot be read"),
        ("a.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)[:-9], r"a\.jsonl\.gz cannot be read"),
        ("a.jsonl.bz2", bz2.compress(LINES.encode())[:-9], r"a\.jsonl\.bz2 cannot be read"),
        ("a.json", b"[", r"a\.json, line 1: no JSON"),
        ("a.json", LINES.encode(), r"JSON lines need a name that ends in \.jsonl"),
        ("a.json", b'{"a": 1}', r"a\.json holds one object, not a list"),
        ("a.json", b'[{"a": 1}, null]', r"a\.json, entry 2: null"),
        ("a.json", b"[]", r"a\.json has no rows"),
        ("a.parquet", b"version https://git-lfs.github.com/spec/v1", r"cannot be read as Parquet"),
        ("a.csv", b"a\n1\n", r"a\.csv: its name ends like none of \.jsonl"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        file_rows(tmp_path / name)


def test_an_empty_parquet_file_and_a_missing_one_are_named(tmp_path):
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has no rows"):
        file_rows(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"b\.jsonl is not there"):
        file_rows(tmp_path / "b.jsonl")


def test_an_unknown_name_of_ours_is_told_the_known_ones():
    with pytest.raises(DataError, match=r"'boolq'; there are arc, hellaswag, winogrande"):
        own_rows("boolq")


def test_the_first_name_that_is_there_is_taken(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("b.jsonl", "data/test-00000-of-00001.parquet"):
        (tmp_path / name).touch()
    names = ["a.jsonl", "data/test-*.parquet", "b.jsonl"]
    assert local_file(tmp_path, names) == tmp_path / "data/test-00000-of-00001.parquet"
    assert local_file(tmp_path, ["b.jsonl", *names]) == tmp_path / "b.jsonl"


def test_a_folder_without_the_file_says_what_it_has(tmp_path):
    (tmp_path / "other.txt").touch()
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match=r"none of a\.jsonl, b-\*\.parquet; it has data/, other"):
        local_file(tmp_path, ["a.jsonl", "b-*.parquet"])
    with pytest.raises(DataError, match=r"none of data; it has"):  # a folder is no data set
        local_file(tmp_path, ["data"])
    with pytest.raises(DataError, match="is no folder"):
        local_file(tmp_path / "nowhere", ["a.jsonl"])


def test_half_of_a_split_data_set_is_not_taken_for_all(tmp_path):
    for n in (0, 1):
        (tmp_path / f"test-{n}.parquet").touch()
    with pytest.raises(DataError, match=r"fits 2 files .*test-0\.parquet, test-1\.parquet"):
        local_file(tmp_path, ["test-*.parquet"])


def test_all_files_of_a_snapshot_that_fit_are_found_once(tmp_path):
    for n in (1, 0):
        (tmp_path / f"test-{n}.parquet").touch()
    found = matching(tmp_path, ["test-*.parquet", "test-1.parquet"])
    assert found == [tmp_path / "test-0.parquet", tmp_path / "test-1.parquet"]
    with pytest.raises(DataError, match=r"no file like train-\*"):
        matching(tmp_path, ["train-*"])


def test_the_workflow_parses_without_pyarrow():
    code = "import sys, quantdrift.data.rows; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_configured_data_sets_name_known_schemas_and_pinned_commits():
    import re

    import yaml

    for file in sorted(Path(__file__).parents[2].glob("config/dataset/*.yaml")):
        about = yaml.safe_load(file.read_text())
        assert about["schema"] in {"arc", "hellaswag", "winogrande"}
        if about["source"]["kind"] == "own":
            assert "our items" in about["label"]
            assert own_rows(about["source"]["name"])
        else:
            assert re.fullmatch(r"[0-9a-f]{40}", about["source"]["revision"])
            assert about["local"]
