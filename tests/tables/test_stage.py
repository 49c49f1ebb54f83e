import pyarrow as pa
import pytest

from quantdrift.tables.io import Table, TableError, column, write
from quantdrift.tables.stage import Stage

TABLE = Table(
    kind="pieces",
    row="one block",
    key=("block",),
    schema=pa.schema(
        [
            column("block", pa.int32(), "block"),
            column("value", pa.float64(), "value"),
            column("deaths", pa.list_(pa.float64()), "deaths"),
        ]
    ),
)
JOB = {"code": "abc", "type": "q4_k", "inputs": ["f00"], "grids": {"swd_directions": 64}}


class Measure:
    """Counts what it is asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, block):
        def compute():
            self.asked.append(block)
            yield {"block": block, "value": block / 3, "deaths": [0.1, 0.2][:block]}

        return compute


def all_rows(stage, measure, blocks=range(3)):
    return [row for b in blocks for row in stage.rows(f"block-{b:03d}", measure(b))]


def test_a_killed_job_goes_on_where_it_was(tmp_path):
    first = Measure()
    stage = Stage(tmp_path, TABLE, JOB)
    before = all_rows(stage, first, range(2))
    second = Measure()
    after = all_rows(Stage(tmp_path, TABLE, JOB), second)
    assert second.asked == [2]
    assert after[:2] == before
    # Resumed or not, the shard has the same bytes.
    write(TABLE, after, tmp_path / "resumed.parquet", {})
    write(
        TABLE, all_rows(Stage(tmp_path / "x", TABLE, JOB), Measure()), tmp_path / "one.parquet", {}
    )
    assert (tmp_path / "resumed.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"code": "abd"},
        {"type": "q4_0"},
        {"inputs": ["f01"]},
        {"grids": {"swd_directions": 65}},
        {"more": None},
    ],
)
def test_pieces_of_other_parameters_are_never_taken(tmp_path, change):
    all_rows(Stage(tmp_path, TABLE, JOB), Measure())
    measure = Measure()
    all_rows(Stage(tmp_path, TABLE, JOB | change), measure)
    assert measure.asked == [0, 1, 2]


def test_nor_those_of_another_table(tmp_path):
    all_rows(Stage(tmp_path, TABLE, JOB), Measure())
    measure = Measure()
    all_rows(Stage(tmp_path, Table("others", "x", TABLE.key, TABLE.schema), JOB), measure)
    assert measure.asked == [0, 1, 2]


def test_the_order_of_parameters_does_not_matter(tmp_path):
    turned = dict(reversed(JOB.items()))
    assert Stage(tmp_path, TABLE, JOB).folder == Stage(tmp_path, TABLE, turned).folder


def test_a_piece_that_fails_is_not_kept(tmp_path):
    stage = Stage(tmp_path, TABLE, JOB)

    def dies():
        yield {"block": 0, "value": 0.5, "deaths": []}
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        stage.rows("block-000", dies)
    with pytest.raises(TableError, match=r"pieces.value is NaN"):
        stage.rows("block-000", lambda: [{"block": 0, "value": float("nan"), "deaths": []}])
    assert not stage.folder.exists()
    measure = Measure()
    stage.rows("block-000", measure(0))
    assert measure.asked == [0]


def test_the_remains_of_a_killed_write_are_not_taken(tmp_path):
    stage = Stage(tmp_path, TABLE, JOB)
    stage.rows("block-000", Measure()(0))
    whole = stage.folder / "block-000.parquet"
    (stage.folder / ".block-001.parquet.123.part").write_bytes(whole.read_bytes()[:100])
    measure = Measure()
    stage.rows("block-001", measure(1))
    assert measure.asked == [1]


def test_clearing_removes_only_ones_own_pieces(tmp_path):
    mine, other = Stage(tmp_path, TABLE, JOB), Stage(tmp_path, TABLE, JOB | {"type": "q8_0"})
    for stage in (mine, other):
        all_rows(stage, Measure())
    mine.clear()
    assert not mine.folder.exists()
    assert len(list(other.folder.iterdir())) == 3
    mine.clear()  # twice is no error
