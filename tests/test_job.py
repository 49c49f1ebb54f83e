"""What scripts do around their work."""

import pytest

from quantdrift import job


def test_more_memory_than_there_is_is_refused_with_the_remedy():
    """R31: memory is reckoned before it is asked for."""
    job.require_memory(1, "lower n")
    with pytest.raises(MemoryError, match=r"1048576.0 GiB are needed .* free; lower n"):
        job.require_memory(2**50, "lower n")


def test_progress_yields_every_item(caplog):
    with caplog.at_level("INFO", logger="quantdrift"):
        assert list(job.progress(iter("abc"), 3, "Letters")) == ["a", "b", "c"]
    assert "Letters: 3 done" in caplog.text
