import numpy as np
import pytest

from quantdrift.tables.hidden import HiddenError, read_hidden, write_hidden

MADE = {"token_sha256": "a", "device": "cpu", "dtype": "float32"}


def test_batches_come_back_in_order(tmp_path):
    states = np.random.default_rng(0).standard_normal((5, 3, 4)).astype(np.float32)
    write_hidden(iter([states[:2], states[2:4], states[4:]]), 5, tmp_path / "a/x.npy", MADE)
    np.testing.assert_array_equal(read_hidden(tmp_path / "a/x.npy", MADE), states)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["x.json", "x.npy"]


def test_states_of_another_text_are_refused(tmp_path):
    write_hidden(iter([np.zeros((1, 2, 3), np.float32)]), 1, tmp_path / "x.npy", MADE)
    with pytest.raises(HiddenError, match=r"token_sha256 'a', and this job has 'b'.*Delete"):
        read_hidden(tmp_path / "x.npy", MADE | {"token_sha256": "b"})


def test_a_failed_run_leaves_no_file_of_that_name(tmp_path):
    def broken():
        yield np.zeros((1, 2, 3), np.float32)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        write_hidden(broken(), 2, tmp_path / "x.npy", MADE)
    assert not (tmp_path / "x.npy").exists()
