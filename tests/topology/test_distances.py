import dataclasses
import subprocess
import sys
import time

import numpy as np
import pytest
from diagram_pairs import low_rank, pairs, rounded
from hypothesis import given, settings
from hypothesis import strategies as st

from quantdrift.topology.diagrams import h0_deaths
from quantdrift.topology.distances import DISTANCES, Grids, all_distances
from quantdrift.topology.filtrations import FILTRATIONS

PAIRS = pairs()
GRIDS = Grids()
FEW_TREES = Grids(tswd_slices=5, tswd_depth=5)  # for tests that do not need them all


def raw(a, b, filtration="clip", grids=GRIDS):
    return {name: value for name, (value, _) in all_distances(a, b, grids, filtration).items()}


def test_the_seven_in_the_papers_order():
    assert list(DISTANCES) == ["betti", "entropy", "landscape", "pfd", "pi", "swd", "tswd"]
    assert list(raw(*PAIRS["random"])) == list(DISTANCES)


@pytest.mark.parametrize("filtration", FILTRATIONS)
@pytest.mark.parametrize("name", PAIRS)
def test_finite_symmetric_and_zero_only_on_itself(name, filtration):
    """R28: never NaN, and zero on itself, also of one point and of none."""
    a, b = PAIRS[name]
    forth, back = all_distances(a, b, GRIDS, filtration), all_distances(b, a, GRIDS, filtration)
    itself = all_distances(a, a.copy(), GRIDS, filtration)
    for distance in DISTANCES:
        assert np.isfinite(forth[distance]).all()
        assert min(forth[distance]) >= 0
        assert forth[distance] == pytest.approx(back[distance], rel=1e-9, abs=1e-14)
        assert itself[distance] == (0, 0)
    if name not in ("equal", "none-at-all", "zeros-among-bars"):
        assert min(value for key, (value, _) in forth.items() if key != "entropy") > 0


def test_bars_of_length_zero_do_not_show():
    a, b = PAIRS["random"]
    few, many = np.zeros(3), np.zeros(30)
    assert raw(np.r_[many, a], np.r_[few, a]) == pytest.approx(
        dict.fromkeys(DISTANCES, 0), abs=1e-12
    )
    padded, plain = raw(np.r_[many, a], np.r_[few, b]), raw(a, b)
    for name in plain.keys() - {"pfd"}:  # it compares shares: points on the diagonal dilute them
        assert padded[name] == pytest.approx(plain[name], rel=1e-12)
    assert padded["pfd"] < plain["pfd"]


DEATHS = st.lists(st.floats(0, 2), max_size=10).map(lambda bars: np.sort(np.array(bars)))


@given(a=DEATHS, b=DEATHS, filtration=st.sampled_from(FILTRATIONS))
@settings(deadline=None, max_examples=60)
def test_symmetry_and_identity_of_any_diagrams(a, b, filtration):
    forth, back = raw(a, b, filtration, FEW_TREES), raw(b, a, filtration, FEW_TREES)
    for name, value in forth.items():
        assert value >= 0
        assert value == pytest.approx(back[name], rel=1e-9, abs=1e-12)
    assert set(raw(a, a, filtration, FEW_TREES).values()) == {0}


@pytest.mark.parametrize("name", ["random", "weights-clip", "zeros-among-bars"])
def test_normalised_does_not_grow_with_the_number_of_bars(name):
    a, b = PAIRS[name]
    one = all_distances(a, b, GRIDS, "clip")
    four = all_distances(np.repeat(a, 4), np.repeat(b, 4), GRIDS, "clip")
    for distance, growth in {
        "betti": 4,
        "landscape": 2,
        "pfd": 1,
        "pi": 4,
        "swd": 4,
        "tswd": 4,
    }.items():
        assert four[distance][0] == pytest.approx(growth * one[distance][0], rel=1e-5)
        assert four[distance][1] == pytest.approx(one[distance][1], rel=1e-5)
    # Repeating adds log 4 to both entropies; n equal bars have entropy log n, normalised 1.
    assert four["entropy"][0] == pytest.approx(one["entropy"][0], rel=1e-9)
    equal_bars, one_bar = np.full(50, 0.4), np.r_[np.zeros(49), 0.4]
    assert all_distances(equal_bars, one_bar, GRIDS, "clip")["entropy"][1] == pytest.approx(1)


def test_normalised_counts_the_bars_that_drop_hides():
    few, more = np.array([0.3, 0.9, 0.9, 0.9]), np.array([0.4, 0.9, 0.9, 0.9])
    value, normalised = all_distances(few, more, GRIDS, "drop")["swd"]
    assert normalised == pytest.approx(value / 4)


def test_filtrations_censor_before_comparing():
    base, coarse = h0_deaths(low_rank(120)), h0_deaths(rounded(low_rank(120)))
    grids = Grids(threshold=0.35)
    clipped = raw(np.minimum(base, 0.35), np.minimum(coarse, 0.35), "clip", grids)
    dropped = raw(base[base <= 0.35], coarse[coarse <= 0.35], "drop", grids)
    assert raw(base, coarse, "clip", grids) == clipped
    assert raw(base, coarse, "drop", grids) == dropped
    assert raw(base, coarse, "full", grids) == raw(base, coarse, "full", Grids(threshold=0.7))


def test_one_death_that_crosses_the_threshold_makes_drop_jump():
    base = np.array([0.3, 0.5, 0.79])
    moved = np.array([0.3, 0.5, 0.81])
    assert raw(base, moved, "drop")["swd"] > 10 * raw(base, moved, "clip")["swd"]


@pytest.mark.parametrize(
    ("field", "distance"),
    [
        ("landscape_levels", "landscape"),
        ("pfd_sigma", "pfd"),
        ("image_sigma", "pi"),
        ("image_pixel", "pi"),
        ("swd_directions", "swd"),
        ("tswd_slices", "tswd"),
        ("tswd_depth", "tswd"),
        ("tswd_seed", "tswd"),
    ],
)
def test_every_grid_setting_reaches_its_distance(field, distance):
    a, b = PAIRS["random"]
    other = dataclasses.replace(FEW_TREES, **{field: 0.1 if distance in ("pfd", "pi") else 3})
    before, after = raw(a, b, grids=FEW_TREES), raw(a, b, grids=other)
    assert {name for name in before if before[name] != after[name]} == {distance}


def test_grids_that_make_no_sense_are_refused():
    for field, value in [
        ("threshold", 0.0),
        ("threshold", 2.5),
        ("pfd_sigma", -1.0),
        ("tswd_depth", 0),
    ]:
        with pytest.raises(ValueError, match=f"{field} = {value}"):
            Grids(**{field: value})
    with pytest.raises(ValueError, match="unknown filtration 'cut'"):
        raw(*PAIRS["random"], "cut")


def test_seven_distances_of_a_large_pair_stay_cheap():
    rng = np.random.default_rng(0)
    a = np.sort(rng.normal(0.7, 0.1, 4095).clip(0, 2))
    b = np.sort((a + rng.normal(0, 0.005, 4095)).clip(0, 2))
    seconds = []
    for _ in range(3):
        start = time.process_time()
        raw(a, b, "full")
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.5


def test_importing_the_distances_is_cheap():
    heavy = "{'numba', 'scipy', 'pandas', 'torch', 'ripser'} & set(sys.modules)"
    code = f"import sys, quantdrift.topology.distances; assert not {heavy}, {heavy}"
    subprocess.run([sys.executable, "-c", code], check=True)
