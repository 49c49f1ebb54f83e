import numpy as np
import pytest

from quantdrift.topology.diagrams import cosine_distances, h0_deaths
from quantdrift.topology.shortcuts import shortcuts


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    before = (rng.standard_normal((40, 5)) @ rng.standard_normal((5, 24))).astype(np.float32)
    return before, before + 0.1 * rng.standard_normal((40, 24)).astype(np.float32)


def found(pair, **asked):
    asked = {"sizes": [], "ranks": [], "draws": [0]} | asked
    return list(shortcuts(*pair, **asked))


def test_the_pair_itself_comes_first(pair):
    (one,) = found(pair)
    assert (one.name, one.size, one.draw) == ("exact", 40, None)
    assert one.before is pair[0]


def test_the_same_rows_are_drawn_before_and_after(pair):
    samples = found(pair, sizes=[10], draws=[0, 1])[1:]
    assert [(one.name, one.size, one.draw) for one in samples] == [("rows", 10, 0), ("rows", 10, 1)]
    for one in samples:
        places = [int(np.flatnonzero((pair[0] == row).all(1))[0]) for row in one.before]
        np.testing.assert_array_equal(one.after, pair[1][places])
    assert not np.array_equal(samples[0].before, samples[1].before)


def test_what_is_not_smaller_is_left_out(pair):
    assert len(found(pair, sizes=[40, 99], ranks=[24, 30])) == 1


def test_enough_directions_leave_the_base_as_it_is(pair):
    """The base has rank 5, so five directions hold all of it: same angles, same diagram."""
    _, five, two = found(pair, ranks=[5, 2])
    assert five.before.shape == (40, 5)
    np.testing.assert_allclose(cosine_distances(five.before), cosine_distances(pair[0]), atol=1e-5)
    np.testing.assert_allclose(h0_deaths(five.before), h0_deaths(pair[0]), atol=1e-5)
    assert h0_deaths(two.before).sum() < h0_deaths(pair[0]).sum()


def test_both_clouds_are_seen_along_the_bases_directions(pair):
    *_, one = found(pair, ranks=[3])
    directions = np.linalg.svd(pair[0].astype(float))[2][:3].T
    for mine, whole in ((one.before, pair[0]), (one.after, pair[1])):
        np.testing.assert_allclose(np.abs(mine), np.abs(whole @ directions), atol=1e-4)
