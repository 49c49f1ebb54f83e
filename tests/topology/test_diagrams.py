import tracemalloc

import gudhi
import numpy as np
import pytest
from diagram_pairs import clouds, low_rank
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ripser import ripser
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import squareform

from quantdrift.topology import diagrams
from quantdrift.topology.diagrams import (
    cosine_distances,
    deaths_of_distances,
    h0_deaths,
    required_bytes,
    sample_rows,
)
from quantdrift.topology.filtrations import censor, count_bars

CLOUDS = clouds()
FLOAT32 = np.finfo(np.float32).eps


@pytest.fixture(params=CLOUDS)
def cloud(request):
    return CLOUDS[request.param]


def by_gudhi(D):
    edges = gudhi.RipsComplex(distance_matrix=D).create_simplex_tree(max_dimension=1)
    edges.compute_persistence(homology_coeff_field=2, min_persistence=-1)
    deaths = edges.persistence_intervals_in_dimension(0)[:, 1]
    return np.sort(deaths[np.isfinite(deaths)])


def by_scipy_tree(D):
    tree = minimum_spanning_tree(D + 1)  # scipy takes an entry near 0 for a missing edge
    return np.sort(tree.data) - 1


def by_single_linkage(D):
    return linkage(squareform(D), "single")[:, 2]


@pytest.mark.parametrize("oracle", [by_gudhi, by_scipy_tree, by_single_linkage])
def test_deaths_agree_with_other_algorithms(cloud, oracle):
    D = cosine_distances(cloud)
    # All take the same distances; only adding 1 to them rounds.
    np.testing.assert_allclose(deaths_of_distances(D), oracle(D), rtol=0, atol=1e-15)


def test_ripser_backend_agrees_also_where_it_omits_duplicates(cloud):
    ours, theirs = h0_deaths(cloud), h0_deaths(cloud, backend="ripser")
    assert len(theirs) == len(cloud) - 1
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=FLOAT32)  # it rounds to float32


def test_float32_distances_err_by_rounding(cloud):
    single = h0_deaths(cloud, precision="float32")
    # A dot product of d terms of unit rows errs by at most d/2 roundings, in practice by √d.
    bound = 4 * FLOAT32 * np.sqrt(cloud.shape[1])
    np.testing.assert_allclose(single, h0_deaths(cloud), rtol=0, atol=bound)
    assert single.dtype == np.float64


def test_known_deaths():
    np.testing.assert_array_equal(h0_deaths(np.eye(6)), np.ones(5))
    np.testing.assert_allclose(h0_deaths(np.array([[1.0, 0], [1, 1]])), 1 - np.sqrt(0.5))
    np.testing.assert_allclose(h0_deaths(np.array([[1.0, 2], [-3, -6]])), 2)
    angles = np.cumsum([0, 0.3, 0.1, 0.2])
    arc = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_allclose(h0_deaths(arc), 1 - np.cos([0.1, 0.2, 0.3]))
    assert h0_deaths(np.ones((1, 3))).shape == (0,)
    assert h0_deaths(np.ones((0, 3))).shape == (0,)


def test_zero_rows_stand_at_distance_one():
    D = cosine_distances(np.array([[0.0, 0], [0, 0], [3, 4], [-3, -4]]))
    np.testing.assert_allclose(D, [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 2], [1, 1, 2, 0]])


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 33, 130])
def test_distances_are_symmetric_to_the_bit_with_a_zero_diagonal(n, precision):
    rows = low_rank(n)
    rows[n // 2] = rows[0]
    D = cosine_distances(rows, precision=precision)
    assert D.dtype == precision
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diag(D), 0)
    assert D.min() >= 0  # 1 - x·x of a repeated row rounds to either side of 0
    assert D.max() <= 2
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    squared = np.sum((unit[:, None] - unit) ** 2, axis=2)  # |x - y|² = 2 (1 - x·y)
    np.testing.assert_allclose(D, squared / 2, rtol=0, atol=64 * np.finfo(precision).eps)


def test_huge_and_tiny_rows_keep_their_direction():
    rows = low_rank(12)
    scale = np.logspace(-290, 290, 12)[:, None]
    np.testing.assert_allclose(cosine_distances(rows * scale), cosine_distances(rows), atol=1e-14)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value):
    rows = low_rank(5)
    rows[3, 1] = value
    with pytest.raises(ValueError, match="NaN or infinite values in 1 rows, first 3"):
        h0_deaths(rows)


def test_unknown_choices_are_named():
    rows = low_rank(4)
    for call, word in [
        (lambda: h0_deaths(rows, backend="kruskal"), "'kruskal'; known: prim, ripser"),
        (lambda: list(diagrams.clouds(rows, "cells")), "'cells'; known: rows, columns, heads"),
        (lambda: list(diagrams.clouds(rows, "heads", 3)), "4 rows do not split .* head_dim=3"),
        (lambda: list(diagrams.clouds(rows, "heads")), "head_dim=None"),
        (lambda: censor(np.ones(1), "cut", 0.8), "'cut'; known: clip, drop, full"),
        (lambda: sample_rows(rows, 1, np.random.default_rng()), "sample of 1 rows"),
    ]:
        with pytest.raises(ValueError, match=word):
            call()


ROWS = hnp.arrays(np.float64, (9, 3), elements=st.integers(-3, 3).map(float))


@given(rows=ROWS, seed=st.integers(0, 99))
@settings(deadline=None)
def test_order_and_length_of_rows_do_not_matter(rows, seed):
    rng = np.random.default_rng(seed)
    moved = rng.permutation(rows) * rng.uniform(0.1, 9, (9, 1))
    np.testing.assert_allclose(h0_deaths(moved), h0_deaths(rows), rtol=0, atol=1e-15)


@given(rows=ROWS)
@settings(deadline=None)
def test_a_tie_or_zero_never_loses_a_bar(rows):
    D = cosine_distances(rows)
    np.testing.assert_allclose(deaths_of_distances(D), by_single_linkage(D), rtol=0, atol=1e-15)


@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.75])
def test_drop_keeps_what_ripser_returns_ties_included(threshold):
    # Neighbours on a chain are 1/8 ... 8/8 apart (exact in float32), others their largest step.
    steps = np.random.default_rng(5).permutation(np.arange(1, 9)) / 8
    D = np.array(
        [[max(steps[min(i, j) : max(i, j)], default=0) for i in range(9)] for j in range(9)]
    )
    deaths = deaths_of_distances(D)
    bars = ripser(D, maxdim=0, distance_matrix=True, thresh=threshold)["dgms"][0]
    finite = np.isfinite(bars[:, 1])
    np.testing.assert_array_equal(censor(deaths, "drop", threshold), np.sort(bars[finite, 1]))
    assert threshold in deaths
    assert count_bars(deaths, threshold) == (finite.sum(), (~finite).sum())


def test_filtrations():
    deaths = np.array([0.1, 0.8, 0.9])
    np.testing.assert_array_equal(censor(deaths, "clip", 0.8), [0.1, 0.8, 0.8])
    np.testing.assert_array_equal(censor(deaths, "drop", 0.8), [0.1, 0.8])
    np.testing.assert_array_equal(censor(deaths, "full", 0.8), deaths)
    assert count_bars(deaths, 0.8) == (2, 2)
    assert count_bars(np.empty(0), 0.8) == (0, 1)


def test_clouds_of_a_matrix():
    weight = np.arange(24.0).reshape(6, 4)
    ((part, rows),) = diagrams.clouds(weight, "rows")
    assert part == 0
    np.testing.assert_array_equal(rows, weight)
    ((part, columns),) = diagrams.clouds(weight, "columns")
    assert part == 0
    np.testing.assert_array_equal(columns, weight.T)
    heads = list(diagrams.clouds(weight, "heads", head_dim=2))
    assert [part for part, _ in heads] == [0, 1, 2]
    np.testing.assert_array_equal(heads[1][1], weight[2:4])


def test_sampled_rows_are_sorted_distinct_and_repeatable():
    weight = np.zeros((100, 1))
    kept = sample_rows(weight, 30, np.random.default_rng(7))
    assert len(kept) == 30
    assert (np.diff(kept) > 0).all()
    assert kept.max() >= 30  # not merely the first ones
    np.testing.assert_array_equal(kept, sample_rows(weight, 30, np.random.default_rng(7)))
    np.testing.assert_array_equal(sample_rows(weight, 100, np.random.default_rng(7)), range(100))


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("n", "dim"), [(1200, 64), (300, 2000)])
def test_memory_is_what_the_preflight_says(n, dim, precision):
    cloud = np.random.default_rng(0).standard_normal((n, dim)).astype(np.float32)
    h0_deaths(cloud[:10], precision=precision)  # compiles
    tracemalloc.start()
    h0_deaths(cloud, precision=precision)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.95 * peak <= required_bytes(n, precision, dim) <= 1.05 * peak
