import gudhi.representations
import numpy as np
import pytest
from diagram_pairs import UPPER, pairs, plane, with_projections
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from quantdrift.topology.sliced import sliced_wasserstein, tree_sliced_wasserstein

PAIRS = pairs()
NOT_EMPTY = [name for name, pair in PAIRS.items() if all(map(len, pair))]  # gudhi takes no other


@pytest.fixture(params=PAIRS)
def pair(request):
    return PAIRS[request.param]


def test_sliced_is_the_mean_of_transport_costs_on_lines(pair):
    a, b = pair
    first, second = with_projections(a, b), with_projections(b, a)
    costs = []
    for angle in np.radians(-90 + 180 / 7 * (np.arange(7) + 0.5)):
        line = np.array([np.cos(angle), np.sin(angle)])
        if len(first):
            costs.append(len(first) * wasserstein_distance(first @ line, second @ line))
    expected = np.mean(costs) if costs else 0
    assert sliced_wasserstein(a, b, directions=7) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", NOT_EMPTY)
def test_64_directions_agree_with_gudhi_on_4000(name):
    a, b = PAIRS[name]
    many = gudhi.representations.SlicedWassersteinDistance(num_directions=4001)(plane(a), plane(b))
    # A kinked function of the angle on 64 midpoints: 1 % at most, and gudhi omits one direction.
    assert sliced_wasserstein(a, b, directions=64) == pytest.approx(many, rel=0.01, abs=1e-14)


def test_sliced_known_value():
    # One bar against none: (0, d) moves to (d/2, d/2), by d/√2; the mean of |cos| is 2/π.
    distance = sliced_wasserstein(np.array([0.5]), np.empty(0), directions=4096)
    assert distance == pytest.approx(0.5 / np.sqrt(2) * 2 / np.pi, rel=1e-6)


class Tree:
    """A quadtree built cell by cell, with the points' places in it."""

    def __init__(self, points, corner, side, depth):
        self.edges, self.count = [], 1
        self.leaf = np.empty(len(points), int)
        self.split(points, np.arange(len(points)), np.asarray(corner), side, depth, 0)

    def split(self, points, inside, corner, side, depth, node):
        if depth == 0:
            self.leaf[inside] = node
            return
        centre = corner + side / 2
        for quarter in ([0, 0], [0, 1], [1, 0], [1, 1]):
            below = inside[((points[inside] >= centre) == quarter).all(axis=1)]
            if len(below):
                child, self.count = self.count, self.count + 1
                start = corner + np.array(quarter) * side / 2
                self.edges.append((node, child, np.linalg.norm(start + side / 4 - centre)))
                self.split(points, below, start, side / 2, depth - 1, child)

    def distances(self):
        start, end, length = zip(*self.edges, strict=True)
        graph = coo_array((length, (start, end)), shape=(self.count, self.count))
        return shortest_path(graph.tocsr(), directed=False)[np.ix_(self.leaf, self.leaf)]


def transport(costs):
    return costs[linear_sum_assignment(costs)].sum()


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_tree_sliced_is_the_mean_of_transport_costs_on_trees(pair, depth):
    a, b = (deaths[-40:] for deaths in pair)
    first, second = with_projections(a, b), with_projections(b, a)
    shifts = UPPER * np.random.default_rng(3).random((2, 4, 1))
    costs = []
    for shift in shifts[..., 0].T:
        if len(first):
            tree = Tree(np.concatenate([first, second]), -shift, 2 * UPPER, depth)
            costs.append(transport(tree.distances()[: len(first), len(first) :]))
    expected = np.mean(costs) if costs else 0
    distance = tree_sliced_wasserstein(a, b, upper=UPPER, slices=4, depth=depth, seed=3)
    assert distance == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_tree_sliced_stands_between_its_bounds(pair):
    a, b = pair
    depth, slices = 8, 400
    first, second = with_projections(a, b), with_projections(b, a)
    plain = transport(cdist(first, second)) if len(first) else 0
    distance = tree_sliced_wasserstein(a, b, upper=UPPER, slices=slices, depth=depth, seed=0)
    # From below for every tree, but for the way to the leaves' centres, half a diagonal each.
    leaf = 2 * UPPER / 2**depth
    assert distance >= plain - 2 * len(first) * leaf / np.sqrt(2)
    # From above in the mean: a level parts two points with probability (|dx| + |dy|) / side at most
    # and then costs √2 side. Per tree it is at most 4 UPPER √2 a point; 5 standard errors.
    spread = 5 * 4 * UPPER * np.sqrt(2) * len(first) / np.sqrt(slices)
    assert distance <= 2 * depth * plain + spread


def test_another_seed_changes_little():
    a, b = PAIRS["weights-clip"]
    options = {"upper": UPPER, "slices": 400, "depth": 10}
    values = [tree_sliced_wasserstein(a, b, seed=seed, **options) for seed in range(5)]
    assert np.std(values) < 0.05 * np.mean(values)
    assert np.std(values) > 0  # the seed does reach the trees
    assert values[0] == tree_sliced_wasserstein(a, b, seed=0, **options)
