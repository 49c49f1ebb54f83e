import numpy as np
import pytest
from diagram_pairs import UPPER, pairs
from hypothesis import given
from hypothesis import strategies as st
from persim.persistent_entropy import persistent_entropy

from quantdrift.topology.curves import (
    betti_distance,
    entropy,
    entropy_distance,
    landscape_distance,
)

PAIRS = pairs()
CELLS = 40_000
GRID = (np.arange(CELLS) + 0.5) * UPPER / CELLS  # midpoints


@pytest.fixture(params=PAIRS)
def pair(request):
    return PAIRS[request.param]


def test_betti_is_the_integral_over_a_fine_grid(pair):
    def curve(deaths):
        return np.array([np.count_nonzero((t >= 0) & (t < deaths)) for t in GRID])

    squares = (curve(pair[0]) - curve(pair[1])) ** 2
    # The sum is wrong only in cells that hold a death, there by at most the jump of the squares.
    jumps = np.abs(np.diff(squares, append=0)).sum()
    distance = betti_distance(*pair)
    assert distance**2 == pytest.approx(squares.mean() * UPPER, abs=1e-12 + jumps * UPPER / CELLS)


def test_betti_known_values():
    assert betti_distance(np.array([0.2]), np.array([0.5])) == pytest.approx(np.sqrt(0.3))
    # Two bars more on [0, 0.1), one more on [0.1, 0.3): sqrt(4 * 0.1 + 1 * 0.2).
    assert betti_distance(np.array([0.1, 0.3]), np.empty(0)) == pytest.approx(np.sqrt(0.6))


def landscapes(deaths, grid, levels):
    """λ_k(t): the k-th largest of the tents max(0, min(t - birth, death - t))."""
    tents = np.maximum(0, np.minimum(grid, deaths[:, None] - grid))
    tents = np.sort(np.concatenate([tents, np.zeros((levels, len(grid)))]), axis=0)[::-1]
    return tents[:levels]


@pytest.mark.parametrize("levels", [None, 1, 3])
def test_landscapes_are_the_integral_over_a_grid(pair, levels):
    a, b = pair
    count = levels or max(len(a), len(b))
    grid = (np.arange(4000) + 0.5) * UPPER / 4000
    difference = landscapes(a, grid, count) - landscapes(b, grid, count)
    integral = np.sum(difference**2) * UPPER / 4000
    # Midpoint rule on squares of slope at most 4 * 0.4: error h²/8 of the slope's change, a level.
    tolerance = 1e-12 + count * (UPPER / 4000) ** 2
    assert landscape_distance(a, b, levels=levels) ** 2 == pytest.approx(integral, abs=tolerance)


def test_landscape_known_values():
    # One tent of height d/2 and base d against nothing: ∫ = d³ / 12.
    distance = landscape_distance(np.array([0.6]), np.empty(0))
    assert distance == pytest.approx(np.sqrt(0.6**3 / 12))
    # The flanks of two near tents differ by x - y between the tops: (x - y)² y / 2.
    distance = landscape_distance(np.array([0.6]), np.array([0.5]))
    assert distance == pytest.approx(np.sqrt(0.1**2 * 0.25))


def test_entropy_agrees_with_persim(pair):
    for deaths in pair:
        bars = deaths[deaths > 0]  # persim refuses bars of length 0
        expected = 0.0
        if len(bars):
            expected = persistent_entropy(np.stack([0 * bars, bars], axis=1))[0]
        assert entropy(deaths) == pytest.approx(expected, abs=1e-12)


def test_entropy_known_values():
    assert entropy(np.full(7, 0.3)) == pytest.approx(np.log(7))
    assert entropy(np.array([0, 0, 0.3, 0.3])) == pytest.approx(np.log(2))
    assert entropy(np.zeros(4)) == 0
    assert entropy_distance(np.full(7, 0.3), np.full(5, 0.1)) == pytest.approx(np.log(7 / 5))


BARS = st.lists(st.floats(0, UPPER), max_size=12).map(lambda bars: np.sort(np.array(bars)))


@given(a=BARS, b=BARS, c=BARS)
def test_betti_and_landscapes_obey_the_triangle_inequality(a, b, c):
    for distance in (betti_distance, landscape_distance):
        assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9


@given(a=BARS, factor=st.floats(0.1, 1))
def test_entropy_is_blind_to_uniform_scaling(a, factor):
    a = a[a > 1e-300]  # a subnormal bar may vanish
    assert entropy_distance(a, factor * a) == pytest.approx(0, abs=1e-12)
