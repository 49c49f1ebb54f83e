"""Data sets of a hub on the loopback."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server import Cut

from quantdrift.models.sources import FetchError

NAME = "someone/arc"
FILES = ["ARC-Challenge/test-*.parquet"]


def arc(count: int) -> bytes:
    """Parquet in the shape of ARC."""
    rows = [
        {
            "id": f"item-{number}",
            "question": f"Which of these is {number}?",
            "choices": {"text": [str(number), "another"], "label": ["A", "B"]},
            "answerKey": "A",
        }
        for number in range(count)
    ]
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream, compression="none")
    return stream.getvalue()


@pytest.fixture
def commit(hub) -> str:
    test = arc(3000)
    assert len(test) > 100_000
    files = {
        "ARC-Challenge/test-00000-of-00001.parquet": test,
        "ARC-Challenge/train-00000-of-00001.parquet": arc(5),
        "ARC-Easy/test-00000-of-00001.parquet": arc(7),
        "README.md": b"# ARC",
    }
    return hub.publish("datasets", NAME, files)


def test_only_the_files_asked_for_come_and_can_be_read(commit, client):
    found = client.fetch(NAME, commit, repo_type="dataset", files=FILES)
    assert found.files == {"ARC-Challenge/test-00000-of-00001.parquet"}
    assert found.path.name == commit
    [file] = found.path.rglob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert len(rows) == 3000
    assert rows[7]["choices"] == {"text": ["7", "another"], "label": ["A", "B"]}


def test_more_files_of_it_can_be_asked_for_later(commit, client, hub):
    client.fetch(NAME, commit, repo_type="dataset", files=FILES)
    easy = ["ARC-Easy/test-00000-of-00001.parquet"]
    assert easy[0] in client.fetch(NAME, commit, repo_type="dataset", files=easy).files
    assert len(hub.downloads("test-00000-of-00001.parquet")) == 2
    hub.stop()
    found = client.fetch(NAME, commit, repo_type="dataset", files=[*FILES, *easy])
    assert len(found.files) == 2


def test_a_broken_download_goes_on_from_there(commit, client, hub):
    name = "test-00000-of-00001.parquet"
    hub.cuts[name] = [Cut(100_000)]
    found = client.fetch(NAME, commit, repo_type="dataset", files=FILES)
    assert pq.read_table(found.path / "ARC-Challenge" / name).num_rows == 3000
    assert [one.range for one in hub.downloads(name)] == [None, "bytes=100000-"]


@pytest.mark.parametrize("files", [["*.jsonl"], [*FILES, "*.jsonl"]])
def test_a_pattern_that_matches_nothing_tells_what_there_is(commit, client, files):
    message = rf"{NAME} at revision {commit} has no \*.jsonl; it has ARC-Challenge/test-.*README.md"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME, commit, repo_type="dataset", files=files)


def test_a_long_list_of_files_is_cut(client, hub):
    hub.publish("datasets", NAME, {f"{number:03}.txt": b"x" for number in range(40)})
    hub.page = 15
    with pytest.raises(FetchError, match=r"it has 000.txt, .*, 011.txt and 28 more. Correct"):
        client.fetch(NAME, repo_type="dataset", files=FILES)


def test_a_gated_data_set_says_how_to_get_it(commit, client, hub):
    hub.gated.add(NAME)
    message = rf"{NAME} is gated: accept its licence on {hub.endpoint}/datasets/{NAME}, then log in"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME, commit, repo_type="dataset", files=FILES)


def test_what_is_missing_names_the_folder_of_data_sets(commit, client):
    with pytest.raises(FetchError, match=r"no revision v2: correct `revision` in config/dataset/"):
        client.fetch(NAME, "v2", repo_type="dataset", files=FILES)
    with pytest.raises(FetchError, match=r"no data set someone/else, .*config/dataset/"):
        client.fetch("someone/else", repo_type="dataset", files=FILES)


def test_without_a_network_the_message_names_the_local_folder(client, hub):
    hub.stop()
    message = r"arc at revision main could not be fetched.*config/dataset/: .*data.dir=path/to"
    with pytest.raises(FetchError, match=message):
        client.fetch(NAME, repo_type="dataset", files=FILES)
