import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdrift.data.rows import DataError
from quantdrift.data.texts import documents, own_text

WIKITEXT = " \n = Title = \n \n Some text . \n \n"


def test_lines_of_plain_text_are_the_hubs_rows(tmp_path):
    """The hub holds WikiText line by line, blank lines as empty strings."""
    (tmp_path / "wiki.test.raw").write_text(WIKITEXT)
    found = documents(tmp_path / "wiki.test.raw", "text")
    assert found == ["", " = Title = \n", "", " Some text . \n", ""]


def test_a_field_of_rows(tmp_path):
    rows = [{"text": "one", "id": 1}, {"text": "two", "id": 2}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert documents(tmp_path / "a.parquet", "text") == ["one", "two"]
    assert documents(tmp_path / "a.jsonl", "text") == ["one", "two"]
    with pytest.raises(DataError, match="row 0: it has no text in the field 'body'"):
        documents(tmp_path / "a.jsonl", "body")


def test_our_own_text_is_one_long_document():
    (text,) = own_text("sample")
    assert len(text.split()) > 3000
    paragraphs = [part for part in text.split("\n\n") if part.strip()]
    assert len(set(paragraphs)) == len(paragraphs)


def test_an_unknown_text_of_ours_is_named():
    with pytest.raises(DataError, match="no text of ours called 'samples'"):
        own_text("samples")


def test_the_real_file_has_the_hubs_rows():
    file = Path(__file__).parents[3] / "shared/data/wikitext2_raw_test.txt"
    if not file.exists():
        pytest.skip("the real data sets do not lie beside the clone")
    found = documents(file, "text")
    assert len(found) == 4358
    assert found[1] == " = Robert Boulter = \n"
