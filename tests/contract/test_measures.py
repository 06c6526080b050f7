"""Every measure of six fixed sets, as recorded: what a figure means does not change silently.

`measure_sets` says which set catches what. Measures are compared within 1e-6, ends of intervals
within 5 % of the recorded width. Intervals come from so many draws that other draws of identities
would give the same ones within that; where they would not, as only a few samples decide about an
end, they are not recorded (`UNSETTLED`).

Not recorded is what computing leaves open: at which thresholds a curve is shown, how far rounding
may have moved a measure, which of several equally bad triples is called the worst, and by which
numbers `threshold.json` holds its curves and spreads. What it says for a rate, a gallery and a
cosine is recorded, and also what a file from before the rebuild says.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from arcset import evaluation as ev
from contract.measure_sets import SETS, measure_set
from contract.outside import arcset_command, json_shape
from contract.recording import differences, interval, plain, recorded

SMALL = ("plain", "ties", "duplicates", "singles")
FROZEN = Path(__file__).parent / "frozen" / "run" / "threshold.json"
DRAWS = 10_000
FARS = (1.0, 0.5, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6)
FPIRS = (0.3, 0.1, 0.03, 0.01, 1e-3)
COSINES = np.linspace(-1, 1, 41)
#: By set, measures whose interval hangs on a few samples.
UNSETTLED = {
    "plain": {"tar_at_far[0.0001]", "rank[5]", "recall_at[10]"},
    "ties": {"recall_at[10]"},
    "singles": {"dir_at_fpir[0.01]"},
    "above-4096": {"tar_at_far[1e-06]"},
}


def some(*quick):
    """All sets, of which those that are not `quick` are for `make test-all`."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in SETS]


@pytest.mark.parametrize("name", SETS)
def test_measures_of_pairs_searches_and_angles(name):
    rows, labels = measure_set(name)
    searched = _identified(rows, labels, fpirs=FPIRS)
    found = {
        "set": {"shape": rows.shape, "digest": _digest(rows, labels)},
        "verification": _described(ev.verification(rows, labels, FARS)),
        "identification": _described(searched),
        "rates_at": {at: searched.rates_at(at) for at in (-1.0, 0.5, 0.75, 0.875, 1.0)},
        "retrieval": _described(ev.retrieval(rows, labels, ks=(1, 5, 10, 50))),
        "few_shot": _described(ev.few_shot(rows, labels)),
        "angles": _described(ev.angles(rows, labels, **_centers(name))),
        "dunn": {
            f"{between} {within}": ev.dunn_index(rows, labels, between=between, within=within)
            for between in (("centroid",) if "20000" in name else ("centroid", "single"))
            for within in ("mean_radius", "max_radius", "diameter")
        },
    }
    recorded(f"measures-{name}", found)


@pytest.mark.parametrize("name", some(*SMALL, "above-4096"))
def test_shape_of_the_classes(name):
    rows, labels = measure_set(name)
    own, other = ev.angle_samples(rows, labels)
    found = {
        "angle_samples": {
            "alone": int(np.isnan(own).sum()),
            "own": np.nanquantile(own, (0, 0.25, 0.5, 0.75, 1)),
            "other": np.quantile(other, (0, 0.25, 0.5, 0.75, 1)),
        },
        "silhouette": {m: ev.silhouette(rows, labels, m) for m in ("cosine", "euclidean")},
        "no_threshold": {m: _no_threshold(name, m) for m in ("cosine", "euclidean")},
    }
    recorded(f"measures-shape-{name}", found)


@pytest.mark.parametrize("name", SMALL)
def test_every_variant_of_a_measure(name):
    rows, labels = measure_set(name)
    pairs, same = _pairs(labels)
    known = labels < 10  # as if the first ten columns were the scores of the first ten identities
    logits = rows[:, :10] / np.abs(rows).max() * 8
    sure = ev.confidence(
        logits[known], labels[known], logits[~known], examples=3 * (name == "plain")
    )
    found = {
        "given pairs": _described(ev.verification(rows, pairs=pairs, same=same)),
        "folds": _described(ev.fold_accuracy(rows, pairs, same)),
        "two samples": _described(_identified(rows, labels, samples=2)),
        "everybody enrolled": _described(_identified(rows, labels, enrolled=1.0)),
        "five ways": _described(ev.few_shot(rows, labels, ways=5, episodes=300, seed=3)),
        "confidence": sure.json(),
        "dunn": {
            f"{metric} {between} {within} {trim}": ev.dunn_index(
                rows, labels, trim, between, within, metric
            )
            for metric in ("euclidean", "cosine", "angle")
            for between in ("centroid", "single")
            for within in ("mean_radius", "max_radius", "diameter")
            for trim in (None, 0.8)
        },
    }
    if name in ("plain", "singles"):  # elsewhere means of two coincide in theory only
        found["templates"] = _described(_identified(rows, labels, samples=2, scoring="mean"))
        found["two shots"] = _described(ev.few_shot(rows, labels, ways=5, shots=2))
    recorded(f"measures-variants-{name}", found)


def test_a_fold_accepts_a_cosine_at_its_threshold():
    """The first fold has cosines of 1 and 0, which puts the threshold of the second at 0.5."""
    rows = [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, -1, -1], [1, 1, 1, -1]]
    pairs, same = [[0, 1], [0, 2], [0, 3], [1, 2]], [True, False, True, False]
    found = ev.fold_accuracy(rows, pairs, same, folds=2)
    assert found.thresholds[1] == 0.5
    assert found.accuracies[1] == 1.0


@pytest.mark.parametrize("name", some(*SMALL))
def test_intervals(name):
    rows, labels = measure_set(name)
    chance = {"intervals": True, "draws": DRAWS}
    results = {
        "verification": ev.verification(rows, labels, **chance),
        "identification": _identified(rows, labels, **chance),
        "retrieval": ev.retrieval(rows, labels, **chance),
        "few_shot": ev.few_shot(rows, labels, **chance),
        "angles": ev.angles(rows, labels, **_centers(name), **chance),
    }
    found = {
        part: {
            measure: interval(result.interval(measure))
            for measure in result.measures()
            if measure not in UNSETTLED.get(name, ())
        }
        for part, result in results.items()
    }
    recorded(f"measures-intervals-{name}", found)


def test_gain_of_one_model_over_another():
    """The other knows two thirds of the columns only."""
    rows, labels = measure_set("plain")
    chance = {"intervals": True, "draws": DRAWS}
    gains = [
        ev.paired(*(measure(part, labels, **chance) for part in (rows, rows[:, :8])), name)
        for measure, name in (
            (ev.verification, "auc"),
            (ev.verification, "eer"),
            (ev.verification, "tar_at_far[0.01]"),
            (ev.retrieval, "recall_at[1]"),
            (ev.retrieval, "map_at_r"),
            (ev.few_shot, "accuracy"),
            (ev.angles, "intra"),
        )
    ]
    found = {
        gain.name: {"gain": gain.gain, "shown": gain.shown, **interval(gain.interval)}
        for gain in gains
    }
    recorded("measures-gain", found)


@pytest.mark.parametrize("name", some(*SMALL, "above-4096"))
def test_thresholds_and_probabilities(name, tmp_path):
    made = ev.make_thresholds(*measure_set(name, others=True), made_from={"part": "others"})
    made.save(tmp_path / "threshold.json")
    recorded(f"measures-thresholds-{name}", _promises(tmp_path / "threshold.json"))
    if name in SMALL:
        content = json.loads((tmp_path / "threshold.json").read_text())
        recorded("measures-threshold-file", json_shape(content, []))
        recorded(f"measures-threshold-file-{name}", _read_by_people(content))


def test_a_file_from_before_says_what_it_did():
    read = ev.Thresholds.load(FROZEN)
    recorded("measures-thresholds-frozen", _promises(FROZEN))
    assert read.for_far(0.01).threshold == read.fars[0].threshold
    strictest = read.for_far(1e-6)  # a file from before has no rarer rates than were measured
    assert strictest.far == read.rates.far["rate"][-1] > 1e-6
    assert read.for_fpir(1e-4, 100).fpir == read.rates.curves[-1].at(100).rate


@pytest.mark.parametrize("name", SMALL)
def test_other_calibrations(name):
    rows, labels = measure_set(name)
    pairs, same = _pairs(labels)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = np.einsum("pd,pd->p", units[pairs[:, 0]], units[pairs[:, 1]]).round(9)
    curves = {
        f"{method} {prior}": ev.calibrate(cosines, same, method, prior=prior)
        for method in ("smooth", "isotonic", "logistic")
        for prior in (0.5, 0.1, None)
    }
    kept = curves["isotonic None"].probability(cosines)
    found = {
        "curves": {title: curve.probability(COSINES) for title, curve in curves.items()},
        "reliability": _described(ev.reliability(kept, same)),
    }
    recorded(f"measures-calibrations-{name}", found)


@pytest.mark.parametrize("name", SMALL)
def test_evaluate_gives_what_the_library_does(name, tmp_path):
    """By the command line: all measures at once, thresholds from others, and what they keep."""
    judged, others = (tmp_path / f"{part}.npz" for part in ("judged", "others"))
    _save(judged, measure_set(name))
    _save(others, measure_set(name, others=True))
    words = ("evaluate", judged, "--validation", others, "--no-report", "--json")
    code, out = arcset_command(*words, "--out", tmp_path / "report")
    assert code == 0
    content = json.loads(out)
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "report").iterdir()}
    assert files.keys() == {"evaluation.json", "threshold.json"}
    assert files["evaluation.json"] == content

    assessed = ev.assess(
        *measure_set(name),
        validation=measure_set(name, others=True),
        made_from={"file": "others.npz"},
    )
    whole = {"note": "", **assessed.json()}
    assert not list(differences(plain(whole), plain(content), tolerance=1e-9))
    thresholds = plain(assessed.thresholds.json())
    assert not list(differences(thresholds, plain(files["threshold.json"]), tolerance=1e-9))

    for item in content["realized"]:
        item["expected"] = interval(item["expected"])
    parts = ("verification", "identification", "retrieval", "few_shot", "angles", "reliability")
    found = {
        **{part: _described(content[part]) for part in parts},
        **{part: content[part] for part in ("samples", "identities", "dim", "shape", "realized")},
        "missing": sorted(content["missing"]),
    }
    recorded(f"measures-evaluate-{name}", found)


def _digest(rows, labels):
    return hashlib.sha256(rows.tobytes() + labels.astype("<i8").tobytes()).hexdigest()


def _save(path, labelled):
    names = [f"{label:05}" for label in labelled.labels.tolist()]  # in the order of their numbers
    np.savez(path, embeddings=labelled.embeddings, labels=np.array(names))


def _described(result):
    """Its fields without curves and intervals, which have a test of theirs."""
    content = result if isinstance(result, dict) else result.json()
    left_out = ("curve", "intervals")
    return {key: value for key, value in content.items() if key not in left_out}


def _identified(rows, labels, *, samples=1, enrolled=0.5, **options):
    chosen = ev.trial(labels, samples=samples, enrolled=enrolled)
    return ev.identification(
        rows[chosen.gallery],
        labels[chosen.gallery],
        rows[chosen.probes],
        labels[chosen.probes],
        **options,
    )


def _centers(name):
    """Centers of all identities but the first five, and of five that are not there."""
    count = int(measure_set(name).labels.max()) + 1
    centers = measure_set(name, others=True).embeddings[:count]
    return {"centers": centers, "center_labels": np.arange(5, count + 5)}


def _no_threshold(name, metric):
    found = ev.no_threshold(*measure_set(name), metric).json()
    if name not in ("plain", "singles"):  # elsewhere several are equally bad
        for key in ("worst", "same_distance", "other_distance"):
            del found[key]
    return found


def _pairs(labels):
    """At most 400 genuine pairs and 400 others (P, 2), mixed, and which of them are genuine."""
    pairs = np.stack(np.triu_indices(len(labels), 1), axis=1)
    pairs = pairs[np.argsort(np.random.PCG64(5).random_raw(len(pairs)), kind="stable")]
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    chosen = np.sort(np.concatenate([np.flatnonzero(kind)[:400] for kind in (same, ~same)]))
    return pairs[chosen], same[chosen]


def _read_by_people(content):
    """Of threshold.json what is neither a curve nor a spread, nor tells in sentences."""
    made_from = {key: one for key, one in content["made_from"].items() if key != "digest"}
    return {
        "kind": content["kind"],
        "version": content["version"],
        "made_from": made_from,
        "calibration": {key: content["calibration"][key] for key in ("method", "prior")},
        "far": [{key: one[key] for key in one.keys() - {"spread"}} for one in content["far"]],
        "fpir": [{key: one[key] for key in one.keys() - {"curve"}} for one in content["fpir"]],
    }


def _promises(path):
    """What a threshold.json says of all rates in it, of others, and of cosines."""
    read = ev.Thresholds.load(path)
    return {
        "far": {far.far: _promise(far) for far in read.fars},
        "fpir": {f"{item.fpir:g} of {item.gallery}": _promise(item) for item in read.fpirs},
        "between": {"far": _promise(read.for_far(0.02)), "fpir": _promise(read.for_fpir(0.2, 25))},
        "probability": read.probability(COSINES),
    }


def _promise(made):
    """A threshold, the rate that it showed, and that which it promises for fresh identities."""
    ranges = {f"{count} identities": interval(made.expect(count)) for count in (50, 1000)}
    return {"threshold": made.threshold, "seen": made.seen, "expected": ranges}
