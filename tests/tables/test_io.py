import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdrift.tables import io, topology
from quantdrift.tables.io import (
    Table,
    TableError,
    column,
    from_rows,
    merge,
    provenance,
    read,
    read_rows,
    write,
    write_bytes,
    write_text,
)

TABLE = Table(
    kind="drift",
    row="one block",
    key=("model", "seed", "block"),
    schema=pa.schema(
        [
            column("model", pa.string(), "model id"),
            column("seed", pa.int32(), "seed", null=True),
            column("block", pa.int32(), "block"),
            column("value_db", pa.float64(), "the value", unit="dB"),
            column("maybe", pa.float64(), "may be undefined", null=True),
            column("deaths", pa.list_(pa.float64()), "deaths"),
            column("shape", pa.list_(pa.int64()), "shape"),
        ]
    ),
)


def row(**changes):
    return {
        "model": "a",
        "seed": None,
        "block": 0,
        "value_db": 0.5,
        "maybe": None,
        "deaths": [0.25, 0.5],
        "shape": [2, 3],
    } | changes


def bad(**changes):
    """One row among others, and it can be told from them."""
    return row(model="b", block=7) | changes


def without(name):
    return {key: value for key, value in bad().items() if key != name}


def test_what_is_written_is_read_back(tmp_path):
    rows = [row(block=b, deaths=np.array([b / 3, 1.0]), value_db=np.float32(0.1)) for b in (0, 1)]
    write(TABLE, rows, tmp_path / "deep" / "t.parquet", {})
    back = read_rows(TABLE, tmp_path / "deep" / "t.parquet")
    assert [r["deaths"] for r in back] == [[0.0, 1.0], [1 / 3, 1.0]]
    assert {r["value_db"] for r in back} == {float(np.float32(0.1))}
    assert {r["seed"] for r in back} == {None}


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (bad(extra=1), r"\['extra'\] too many .*model=b, seed=None, block=7"),
        (without("maybe"), r"lacks \['maybe'\]"),
        (bad(block=1.0), r"drift.block holds int"),
        (bad(block=np.float64(2.5)), r"drift.block holds int"),
        (bad(block=True), r"drift.block"),
        (bad(block="1"), r"drift.block"),
        (bad(block=2**40), r"drift.block.*too large"),
        (bad(value_db="1"), r"drift.value_db"),
        (bad(value_db=2**53 + 1), r"drift.value_db"),
        (bad(model=3), r"drift.model"),
        (bad(deaths=0.5), r"drift.deaths"),
        (bad(value_db=None), r"drift.value_db is null in model=b, seed=None, block=7"),
        (bad(model=None), r"drift.model is null"),
        (bad(value_db=float("nan")), r"value_db is NaN or infinite in model=b, seed=None, block=7"),
        (bad(value_db=float("inf")), r"value_db is NaN or infinite"),
        (bad(maybe=float("nan")), r"drift.maybe is NaN or infinite"),
        (bad(maybe=-float("inf")), r"drift.maybe is NaN or infinite"),
        (bad(deaths=[0.5, float("nan")]), r"drift.deaths is NaN or infinite in model=b"),
        (bad(deaths=np.array([np.inf])), r"drift.deaths is NaN or infinite"),
    ],
)
def test_bad_rows_are_refused_by_name_and_nothing_is_written(tmp_path, wrong, match):
    rows = [row(), wrong, row(block=9)]
    with pytest.raises(TableError, match=match):
        write(TABLE, rows, tmp_path / "t.parquet", {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        row(block=np.float32(2.5)),
        row(shape=[2.5, 3]),
        row(shape=np.array([2.5, 3.0])),
        row(deaths=[0.5, None]),
        row(value_db=True),
    ],
    ids=["float32 in int", "float in ints", "array in ints", "null in floats", "bool in float"],
)
def test_what_would_be_lost_is_refused(wrong):
    with pytest.raises(TableError):
        from_rows(TABLE, [wrong])


def test_numbers_beyond_64_bits_are_refused_by_name():
    with pytest.raises(TableError, match=r"drift.block"):
        from_rows(TABLE, [row(block=2**70)])


@pytest.mark.parametrize("seed", [None, 3])
def test_a_repeated_key_is_refused(tmp_path, seed):
    rows = [row(block=1), row(seed=seed, block=4), row(seed=seed, block=4, value_db=0.6)]
    with pytest.raises(TableError, match=rf"repeat the key .*'seed': {seed}, 'block': 4"):
        write(TABLE, rows, tmp_path / "t.parquet", {})
    assert list(tmp_path.iterdir()) == []


def test_rows_are_sorted_by_key_nulls_last(tmp_path):
    keys = [("b", 0, 1), ("a", None, 3), ("a", 2, 0), ("a", 10, 0), ("a", None, 0), ("a", 2, 10)]
    rows = [row(model=m, seed=s, block=b) for m, s, b in keys]
    data = write(TABLE, rows, tmp_path / "t.parquet", {})
    ordered = [
        (r["model"], r["seed"], r["block"]) for r in read_rows(TABLE, tmp_path / "t.parquet")
    ]
    assert ordered == [
        ("a", 2, 0),
        ("a", 2, 10),
        ("a", 10, 0),
        ("a", None, 0),
        ("a", None, 3),
        ("b", 0, 1),
    ]
    assert data.num_rows == len(rows)


def test_the_same_rows_in_any_order_are_the_same_bytes(tmp_path):
    rows = [row(block=b, value_db=b / 7) for b in range(50)]
    facts = {"code": "abc", "versions": {"b": "2", "a": "1"}}
    write(TABLE, rows, tmp_path / "one.parquet", facts)
    turned = {"versions": {"a": "1", "b": "2"}, "code": "abc"}
    write(TABLE, reversed(rows), tmp_path / "two.parquet", turned)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    rows[3]["value_db"] = np.nextafter(rows[3]["value_db"], 1)
    write(TABLE, rows, tmp_path / "two.parquet", facts)
    assert (tmp_path / "one.parquet").read_bytes() != (tmp_path / "two.parquet").read_bytes()


def test_provenance_meaning_and_unit_are_in_the_file(tmp_path):
    facts = {"model_sha256": "f" * 64, "seed": None, "versions": {"numpy": "2"}, "grid": [1, 0.5]}
    write(TABLE, [row()], tmp_path / "t.parquet", facts)
    assert provenance(tmp_path / "t.parquet") == facts
    field = pq.read_schema(tmp_path / "t.parquet").field("value_db")
    assert field.metadata == {b"meaning": b"the value", b"unit": b"dB"}


def test_no_rows_are_a_table_too(tmp_path):
    write(TABLE, [], tmp_path / "t.parquet", {})
    assert read(TABLE, tmp_path / "t.parquet").num_rows == 0


def test_a_file_of_another_definition_is_refused(tmp_path):
    write(TABLE, [row()], tmp_path / "t.parquet", {})
    fields = list(TABLE.schema)
    others = {
        "a column less": fields[:-1],
        "another type": [*fields[:3], column("value_db", pa.float32(), ""), *fields[4:]],
        "another name": [column("modell", pa.string(), ""), *fields[1:]],
        "null allowed": [column("model", pa.string(), "", null=True), *fields[1:]],
        "another order": [fields[1], fields[0], *fields[2:]],
    }
    for changed in others.values():
        other = Table("drift", "one block", TABLE.key, pa.schema(changed))
        with pytest.raises(TableError, match=r"t.parquet does not hold drift .*delete it"):
            read(other, tmp_path / "t.parquet")


def test_what_is_not_there_is_not_made_up(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(TABLE, tmp_path / "none.parquet")


def test_folders_that_look_like_partitions_add_no_columns(tmp_path):
    path = tmp_path / "model=x" / "block=3" / "t.parquet"
    write(TABLE, [row()], path, {})
    assert read(TABLE, path).column_names == TABLE.schema.names
    assert read_rows(TABLE, path)[0]["block"] == 0


# ---------------------------------------------------------------------------------- merge


def test_shards_become_one_sorted_table(tmp_path):
    shards = []
    for i, model in enumerate("cab"):
        shards.append(tmp_path / f"{model}.parquet")
        facts = {"code": "abc", "seed": 0, "model_sha256": model * 3} | ({"only": 1} if i else {})
        write(TABLE, [row(model=model, block=b) for b in (1, 0)], shards[-1], facts)
    data = merge(TABLE, iter(shards), tmp_path / "all.parquet")
    rows = read_rows(TABLE, tmp_path / "all.parquet")
    assert [(r["model"], r["block"]) for r in rows] == [(m, b) for m in "abc" for b in (0, 1)]
    assert data.num_rows == 6
    # What only some shards say, or say differently, is no fact about all.
    assert provenance(tmp_path / "all.parquet") == {"code": "abc", "seed": 0, "shards": 3}


def test_shards_that_overlap_are_refused(tmp_path):
    for name in ("one", "two"):
        write(TABLE, [row()], tmp_path / f"{name}.parquet", {})
    with pytest.raises(TableError, match=r"repeat the key .*'model': 'a'"):
        merge(TABLE, sorted(tmp_path.iterdir()), tmp_path / "all.parquet")
    assert not (tmp_path / "all.parquet").exists()


def test_a_merge_is_the_same_bytes_whatever_the_shards(tmp_path):
    rows = [row(block=b) for b in range(6)]
    for name, cuts in (("one", [0, 6]), ("two", [0, 1, 4, 6])):
        shards = []
        for i, (start, stop) in enumerate(pairwise(cuts)):
            shards.append(tmp_path / name / f"{i}.parquet")
            write(TABLE, rows[start:stop], shards[-1], {})
        # The number of shards is provenance and differs.
        merged = merge(TABLE, reversed(shards), tmp_path / f"{name}.parquet")
        assert merged.to_pylist() == from_rows(TABLE, rows).to_pylist()
        assert merged["block"].num_chunks == 1


# --------------------------------------------------------------------------- whole or not


def test_a_killed_write_leaves_no_readable_file(tmp_path):
    # Killed for good, in the middle of writing: what is there has no name that anyone reads.
    program = f"""
import os, sys
import pyarrow.parquet as pq
from quantdrift.tables import io, topology
whole = pq.write_table
def half(data, path, **options):
    whole(data, path, **options)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    os._exit(9)
pq.write_table = half
from pathlib import Path
row = dict(stage="a", job="b", seconds=1.0, cpu_seconds=None, peak_mib=None, machine="m")
io.write(topology.TIMINGS, [row],
         Path({str(tmp_path)!r}) / "t.parquet", {{}})
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == 9
    assert list(tmp_path.glob("*.parquet")) == []
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    row = {"stage": "a", "job": "b", "seconds": 1.0, "machine": "m"}
    row |= {"cpu_seconds": None, "peak_mib": None}
    write(topology.TIMINGS, [row], tmp_path / "t.parquet", {})
    assert read_rows(topology.TIMINGS, tmp_path / "t.parquet") == [row]


def test_a_write_that_fails_keeps_the_old_file(tmp_path, monkeypatch):
    write(TABLE, [row()], tmp_path / "t.parquet", {})
    before = (tmp_path / "t.parquet").read_bytes()

    def full(_data, path, **_):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(io.pq, "write_table", full)
    with pytest.raises(OSError, match="no space"):
        write(TABLE, [row(value_db=9.0)], tmp_path / "t.parquet", {})
    assert (tmp_path / "t.parquet").read_bytes() == before


def test_texts_are_written_whole_too(tmp_path):
    write_text("α = 1\n", tmp_path / "deep" / "t.md")
    assert (tmp_path / "deep" / "t.md").read_text(encoding="utf-8") == "α = 1\n"
    write_bytes(b"\0\1", tmp_path / "deep" / "t.png")
    assert (tmp_path / "deep" / "t.png").read_bytes() == b"\0\1"
    assert len(list((tmp_path / "deep").iterdir())) == 2


def test_every_table_is_well_defined():
    for kind, table in topology.TABLES.items():
        assert table.kind == kind
        assert set(table.key) <= set(table.schema.names)
        assert len(set(table.schema.names)) == len(table.schema.names)
        for field in table.schema:
            assert field.metadata[b"meaning"], f"{kind}.{field.name}"
        assert from_rows(table, []).num_rows == 0
