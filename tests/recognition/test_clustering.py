import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from arcset import InputError, OptionError
from arcset.evaluation.calibration import Thresholds, make_thresholds
from arcset.recognition.clustering import (
    METHODS,
    Clustering,
    ClusteringPoint,
    cluster,
    clustering_point,
    score_clusters,
)

LONG = pytest.mark.long


def blobs(
    identities: int, samples: int, dim: int, noise: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = np.repeat(rng.normal(size=(identities, dim)), samples, 0)
    points += noise * rng.normal(size=points.shape)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32), np.repeat(np.arange(identities), samples)


def as_sets(groups: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(groups == each).tolist()) for each in np.unique(groups)}


def test_what_cannot_be_grouped() -> None:
    for points in (np.zeros((2, 3)), np.full((2, 2), np.nan), np.ones((0, 3))):
        with pytest.raises(InputError):
            cluster(points, threshold=0.5)
    for options in ({"threshold": 1.1}, {"threshold": float("nan")}, {"method": "magic"}):
        with pytest.raises(OptionError, match=next(iter(options))):
            cluster(np.ones((2, 2)), **{"threshold": 0.5, **options})


@pytest.mark.parametrize("seed", range(8))
def test_average_linkage_as_scikit_learn_has_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    identities, samples, dim = (int(rng.integers(*range_)) for range_ in ((2, 60), (1, 9), (2, 40)))
    points, _ = blobs(identities, samples + 1, dim, float(rng.uniform(0.2, 1.2)), seed)
    threshold = float(rng.uniform(-0.2, 0.95))
    other = AgglomerativeClustering(
        None, metric="cosine", linkage="average", distance_threshold=1 - threshold
    ).fit(points.astype(np.float64))
    found = cluster(points, threshold=threshold)
    assert adjusted_rand_score(other.labels_, found.groups) == 1


def test_many_rows_are_compared_block_by_block() -> None:
    """More cosines than are held at once, against scikit-learn, which holds all of them."""
    points, _ = blobs(1000, 3, 64, 0.5)
    for method, linkage in (("average", "average"), ("connected", "single")):
        other = AgglomerativeClustering(
            None, metric="cosine", linkage=linkage, distance_threshold=0.3
        ).fit(points.astype(np.float64))
        found = cluster(points, threshold=0.7, method=method)
        assert adjusted_rand_score(other.labels_, found.groups) == 1
        assert 500 < len(found) < 2500


def test_connected_follows_chains_and_average_does_not() -> None:
    turned = np.radians(np.arange(0, 180, 10))
    points = np.stack([np.cos(turned), np.sin(turned)], 1)
    assert len(cluster(points, threshold=0.9, method="connected")) == 1
    assert len(cluster(points, threshold=0.9)) > 2


@pytest.mark.parametrize("method", METHODS)
def test_neither_order_nor_method_matters_where_identities_are_well_apart(method: str) -> None:
    points, labels = blobs(50, 6, 64, 0.3)
    assert adjusted_rand_score(labels, cluster(points, threshold=0.6, method=method).groups) == 1
    points, _ = blobs(30, 4, 16, 0.5)
    order = np.random.default_rng(1).permutation(len(points))
    found = cluster(points, threshold=0.5, method=method).groups
    moved = cluster(points[order], threshold=0.5, method=method).groups
    assert as_sets(found[order]) == as_sets(moved)


@pytest.mark.timeout(60)
def test_thousands_of_copies_are_one_group_in_few_rounds() -> None:
    """Copies differ by rounding; joined pair by pair they would take minutes, a round for each."""
    rng = np.random.default_rng(0)
    points = np.repeat(blobs(3, 1, 32, 0)[0], 3000, 0)
    points += rng.normal(size=points.shape).astype(np.float32) * 1e-7
    assert cluster(points, threshold=0.9).sizes.tolist() == [3000] * 3


def test_equal_cosines_in_a_ring_do_not_stop_it() -> None:
    turned = np.radians(np.arange(0, 360, 30), dtype=np.float32)
    points = np.stack([np.cos(turned), np.sin(turned)], 1)
    assert len(cluster(points, threshold=0.8)) == 6
    assert len(cluster(points, threshold=-1)) == 1
    assert len(cluster(np.ones((5, 3)), threshold=1 - 1e-6)) == 1


def test_groups_are_numbered_by_size_then_by_who_comes_first() -> None:
    points = np.eye(4)[[3, 1, 0, 1, 2, 2, 2, 0]]
    found = cluster(points, threshold=0.5)
    assert found.groups.tolist() == [3, 1, 2, 1, 0, 0, 0, 2]
    assert found.sizes.tolist() == [3, 2, 2, 1]


def test_the_most_typical_comes_first() -> None:
    turned = np.radians([30, 0, 10, 100, 20])
    points = np.stack([np.cos(turned), np.sin(turned)], 1)
    found = Clustering(np.array([0, 0, 0, 1, 0]), 0.5, "average")
    first, second = found.by_typicality(points)
    assert set(first[:2].tolist()) == {2, 4}
    assert second.tolist() == [3]


@pytest.fixture(scope="module")
def calibration() -> Thresholds:
    points, labels = blobs(150, 4, 24, 0.6, seed=1)
    return make_thresholds(points, labels)


@pytest.mark.parametrize(
    "samples", [1, 5, pytest.param(2, marks=LONG), pytest.param(20, marks=LONG)]
)
def test_how_many_are_the_same_is_told_from_the_cosines(
    calibration: Thresholds, samples: int
) -> None:
    points, labels = blobs(60, samples, 24, 0.6, seed=2)
    found = clustering_point(calibration, points)
    assert found.others == pytest.approx(samples - 1, rel=0.2, abs=0.15)
    scores = score_clusters(cluster(points, threshold=found.threshold).groups, labels)
    assert scores.bcubed_f > 0.85
    assert not found.note


def test_the_more_images_the_more_it_takes(calibration: Thresholds) -> None:
    """Of ten times as many identities, the nearest stranger is nearer."""
    few, many = (
        clustering_point(calibration, blobs(count, 2, 24, 0.6, seed=3)[0]) for count in (30, 600)
    )
    assert few.threshold < many.threshold - 0.02
    assert many.others == pytest.approx(1, rel=0.3)


def test_of_many_images_some_are_compared_with_all(calibration: Thresholds) -> None:
    """Of 10,000 images 6,710 are: enough to tell how many others of its identity each has."""
    points, _ = blobs(2000, 5, 24, 0.6, seed=4)
    found = clustering_point(calibration, points)
    assert found.others == pytest.approx(4, rel=0.25)
    assert found == clustering_point(calibration, points)


def test_what_looks_all_alike_is_noted_and_one_image_has_no_others(calibration: Thresholds) -> None:
    alike = blobs(1, 40, 24, 0.3)[0]
    found = clustering_point(calibration, alike)
    assert found.note
    assert len(cluster(alike, threshold=found.threshold)) == 1
    assert clustering_point(calibration, alike[:1]).others == 0
    assert cluster(alike[:1], threshold=0).groups.tolist() == [0]


def test_a_logistic_calibration_is_kept_from_going_too_high() -> None:
    """It takes its slope from the bulk of the cosines, and would ask for copies."""
    points, labels = blobs(120, 2, 256, 0.5, seed=5)
    fresh, truth = blobs(120, 2, 256, 0.5, seed=6)
    logistic = make_thresholds(points, labels, method="logistic")
    found = clustering_point(logistic, fresh)
    assert found.threshold <= max(
        logistic.rates.thresholds[-1], *(rate.threshold for rate in logistic.fpirs)
    )
    assert score_clusters(cluster(fresh, threshold=found.threshold).groups, truth).f > 0.9


def test_without_a_calibration() -> None:
    with pytest.raises(OptionError, match="threshold"):
        clustering_point(None, np.ones((2, 2)))
    assert str(ClusteringPoint(0.5)) == "threshold 0.5000"
