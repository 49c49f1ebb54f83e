import numpy as np
import pytest
from diagram_pairs import UPPER, pairs, plane, with_projections
from gudhi.representations import PersistenceFisherDistance
from hypothesis import given, settings
from hypothesis import strategies as st
from persim import PersistenceImager

from quantdrift.topology.densities import fisher_distance, image_distance

PAIRS = pairs()
NOT_EMPTY = [name for name, pair in PAIRS.items() if all(map(len, pair))]  # gudhi takes no other
SIGMAS = [0.01, 0.05, 0.2]


@pytest.fixture(params=PAIRS)
def pair(request):
    return PAIRS[request.param]


def fisher_by_definition(a, b, sigma):
    """The angle by arccos, in extended precision."""
    first, second = (
        s.astype(np.longdouble) for s in (with_projections(a, b), with_projections(b, a))
    )
    points = np.concatenate([first, second])

    def density(centres):
        squares = np.sum((points[:, None] - centres) ** 2, axis=2)
        values = np.exp(-squares / (2 * np.longdouble(sigma) ** 2)).sum(axis=1)
        return values / values.sum()

    return float(np.arccos(min(np.sqrt(density(first) * density(second)).sum(), 1)))


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("name", NOT_EMPTY)
def test_fisher_agrees_with_gudhi(name, sigma):
    a, b = PAIRS[name]
    expected = PersistenceFisherDistance(bandwidth=sigma)(plane(a), plane(b))
    # The arccos of 1 - ε loses half the digits: √(2 ε) for ε of some roundings.
    assert fisher_distance(a, b, sigma=sigma) == pytest.approx(expected, rel=1e-5, abs=3e-7)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_fisher_agrees_with_the_definition(pair, sigma):
    if sum(map(len, pair)) == 0:
        assert fisher_distance(*pair, sigma=sigma) == 0
        return
    expected = fisher_by_definition(*pair, sigma)
    # Extended precision has ε = 1e-19, so its arccos errs by about 1e-9 where the angle is 0.
    assert fisher_distance(*pair, sigma=sigma) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_fisher_keeps_its_digits_where_arccos_loses_them():
    a = PAIRS["random"][0]
    step = 1e-3
    slope = fisher_distance(a, a * (1 - step), sigma=0.05) / step
    for tiny in (1e-8, 1e-10):
        moved = fisher_distance(a, a * (1 - tiny), sigma=0.05)
        assert moved == pytest.approx(slope * tiny, rel=0.01)
    gudhi = PersistenceFisherDistance(bandwidth=0.05)(plane(a), plane(a * (1 - 1e-10)))
    assert abs(gudhi - slope * 1e-10) > slope * 1e-10  # why ours is not an arccos


@pytest.mark.parametrize("upper", [UPPER, 2.0])
def test_images_agree_with_persim(pair, upper):
    """R29: all births are 0, and an image is not empty."""
    pixel, sigma = upper / 32, 0.05
    imager = PersistenceImager(
        birth_range=(0, upper),
        pers_range=(0, upper),
        pixel_size=pixel,
        weight="linear_ramp",
        weight_params={"low": 0.0, "high": 1.0, "start": 0.0, "end": upper},
        kernel_params={"sigma": np.array([[sigma**2, 0], [0, sigma**2]])},
    )
    assert imager.resolution == (32, 32)
    images = [imager.transform(plane(d), skew=True) if len(d) else np.zeros((32, 32)) for d in pair]
    expected = np.linalg.norm(images[0] - images[1])
    distance = image_distance(*pair, upper=upper, pixel=pixel, sigma=sigma)
    assert distance == pytest.approx(expected, rel=1e-9, abs=1e-12)


BARS = st.lists(st.floats(0, UPPER), max_size=9).map(lambda bars: np.sort(np.array(bars)))


@given(a=BARS, b=BARS)
@settings(deadline=None)
def test_fisher_is_an_angle_blind_to_repeating_every_bar(a, b):
    angle = fisher_distance(a, b, sigma=0.05)
    assert 0 <= angle <= np.pi / 2
    repeated = fisher_distance(np.repeat(a, 3), np.repeat(b, 3), sigma=0.05)
    assert repeated == pytest.approx(angle, abs=1e-6)
