"""Would a calibration gain by more than the cosine? Quality of faces; score normalization.

    python benchmarks/calibration_inputs.py [--epochs 12] [--parts faces,cohort]
    python benchmarks/calibration_inputs.py --detector YUNET.onnx --recognizer SFACE.onnx

**faces**: SFace on the LFW sample, on ORL, and on the LFW sample with every second photo at a third
of its size. A logistic model of the cosine is compared with those that have one more input, or all
three: the length of the embedding before it was normalized, the logarithm of the face's size in
pixels, and the detector's score, each as the lower one of the pair. Each pair is judged by a model
that has seen neither of its identities (five folds): log loss at prior 1/2, and TAR at FAR 1e-3.

**cohort**: a short run of the Omniglot recipe on 21 alphabets is judged by five others, by pairs
within either half of their characters. Scores are normalized by those with a cohort: the other half
(`same`), or drawings of four further alphabets (`others`). Every score is replaced by the mean over
its two sides of (score − mean) / deviation, where both are of the side's scores with the whole
cohort (S-norm), or with its nearest hundred (AS-norm). The faces are judged so, too, by the half.

Printed are both, before and after, with the paired difference and its 95 % interval over
identities. The bar: in, if the interval shows a gain in every set.
"""

import argparse
import json
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import torch
from omniglot import TEST, TUNED_ON
from sklearn.linear_model import LogisticRegression

from arcset.data.named import fetch
from arcset.evaluation import paired, verification
from arcset.evaluation.bootstrap import identity_weights
from arcset.recognition.faces import SFACE, YUNET, Faces, align, read_photo
from arcset.recognition.onnx_model import open_onnx
from arcset.runs import Run, RunConfig
from arcset.runs.assess import evaluation_data
from arcset.runs.data import selection_for
from arcset.runs.model import TrainedRun
from arcset.runs.settings import recipe_settings
from arcset.training import train

RESULTS = Path(__file__).parent / "results"
FAR = 1e-3
FOLDS = 5
INPUTS = {"length": [0], "face size": [1], "detector score": [2], "all three": [0, 1, 2]}
NEAREST = 100  # of the cohort, in AS-norm
DRAWINGS = 10  # of each test identity, in pairs whose scores are normalized


def judge(scores, first, second):
    """TAR at the FAR for pairs of these identities, by any scores, with draws of identities."""
    highest = 1.01 * np.abs(scores).max()  # as cosines with one vector, in the same order
    cosines = np.concatenate((np.ones(first.max() + 1), scores / highest))
    points = np.stack((cosines, np.sqrt(1 - cosines**2)), axis=1)
    labels = np.concatenate((np.arange(first.max() + 1), second))
    rows = np.stack((first, first.max() + 1 + np.arange(len(scores))), axis=1)
    return verification(points, labels, [FAR], pairs=rows, same=first == second, intervals=True)


def shown(difference):
    low, high = difference.interval
    return {"gain": difference.gain, "interval": [low, high], "shown": difference.shown}


# Quality of faces


def embed_faces(name, shrink, options):
    """Raw embeddings, quality (N, 3) and identities of the photos of a folder."""
    faces, net = Faces.load(options.detector), open_onnx(options.recognizer, {"preset": "sface"})
    folder = next(path for path in fetch.data_folders(name) if path.is_dir())
    rows, quality, labels = [], [], []
    for number, person in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        for place, path in enumerate(sorted(person.iterdir())):
            if path.suffix not in (".jpg", ".pgm"):
                continue
            photo = read_photo(path)
            if shrink and place % 2 == number % 2:
                photo = photo[: 3 * (len(photo) // 3), : 3 * (photo.shape[1] // 3)]
                photo = photo.reshape(len(photo) // 3, 3, -1, 3, 3).mean((1, 3)).astype(np.uint8)
            if found := faces.find_in(photo):
                face = found.faces[0]
                rows.append(net.run(align(photo, face.points)[None])[0])
                quality.append((np.linalg.norm(rows[-1]), np.log(face.size), face.score))
                labels.append(number)
    rows = np.array(rows)
    labels = np.unique(labels, return_inverse=True)[1]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.array(quality), labels


def held_out_log_odds(features, first, second, seed=0):
    """Of every pair, by a model of the pairs that show no identity of its one or two folds."""
    folds = np.random.default_rng(seed).permutation(max(first.max(), second.max()) + 1) % FOLDS
    left, right = folds[first], folds[second]
    same, log_odds = first == second, np.empty(len(first))
    for one, other in combinations_with_replacement(range(FOLDS), 2):
        seen = ~np.isin(left, (one, other)) & ~np.isin(right, (one, other))
        judged = ((left == one) & (right == other)) | ((left == other) & (right == one))
        model = LogisticRegression(C=100.0, class_weight="balanced", max_iter=1000)
        model.fit(features[seen], same[seen])
        log_odds[judged] = model.decision_function(features[judged])
    return log_odds


def log_losses(log_odds, first, second, weights):
    """At prior 1/2, in each draw of identities (B,)."""
    same, count = first == second, weights.shape[1]
    loss = np.logaddexp(0, np.where(same, -log_odds, log_odds))
    own = [np.bincount(first[same], part, count) for part in (loss[same], None)]
    cells = first[~same] * count + second[~same]
    others = [
        np.bincount(cells, part, count**2).reshape(count, count) for part in (loss[~same], None)
    ]
    genuine = (weights @ own[0]) / (weights @ own[1])
    impostor, pairs = (((weights @ each) * weights).sum(axis=1) for each in others)
    return (genuine + impostor / pairs) / 2


def compare_inputs(name, shrink, options):
    rows, quality, labels = embed_faces(name, shrink, options)
    i, j = np.triu_indices(len(rows), 1)
    cosine, first, second = np.einsum("pd,pd->p", rows[i], rows[j]), labels[i], labels[j]
    quality = (quality - quality.mean(axis=0)) / quality.std(axis=0)
    lower = np.minimum(quality[i], quality[j])
    scaled = (cosine - cosine.mean()) / cosine.std()
    weights = identity_weights(labels.max() + 1)
    once = np.ones((1, labels.max() + 1))
    found = {
        "photos": len(rows),
        "identities": len(once[0]),
        "genuine": int((i * 0 + (first == second)).sum()),
    }
    for title, columns in {"cosine alone": [], **INPUTS}.items():
        more = lower[:, columns]
        log_odds = held_out_log_odds(np.column_stack((scaled, more)), first, second)
        loss = log_losses(log_odds, first, second, np.concatenate((once, weights)))
        result = judge(log_odds, first, second)
        cell = {"log_loss": loss[0], "tar": result.tar_at_far[FAR]}
        if not columns:
            base, before = loss, result
        else:
            low, high = np.nanquantile((base - loss)[1:], [0.025, 0.975])
            cell["log_loss_gain"] = [low, base[0] - loss[0], high]
            cell["tar_gain"] = shown(paired(result, before, "tar_at_far", FAR))
        found[title] = cell
        print(f"{title:<16}log loss {loss[0]:.5f}   TAR {cell['tar']:.4f}", end="")
        if columns:
            low, gain, high = cell["log_loss_gain"]
            print(f"   loss lower by {gain:+.5f} [{low:+.5f}, {high:+.5f}]", end="")
            print(f"   {paired(result, before, 'tar_at_far', FAR).sentence()}", end="")
        print(flush=True)
    return found | {"cohort": compare_cohorts(rows, labels, labels % 2)}


# Score normalization


def train_short(options):
    settings = recipe_settings("omniglot", "omniglot") | {"data": "omniglot", "dim": 64}
    settings |= {"epochs": options.epochs, "snapshot": 0, "seed": 0}
    settings |= {
        "validate_every": options.epochs,
        "hold_out": {"validation": TUNED_ON, "test": TEST},
    }
    config = RunConfig(**settings)
    selection, place = selection_for(config), options.out / f"cohort-{options.epochs}"
    done = place.is_dir() and len(Run.open(place).metrics()) == options.epochs
    run = Run.open(place) if done else train(config, place, device="cpu", selection=selection)
    return TrainedRun.load(run, device="cpu", selection=selection)


def normalize(scores, i, j, cohort, nearest=None):
    """S-norm of the scores of pairs, by their sides' scores with a cohort (N, M)."""
    if nearest is not None:
        cohort = np.sort(cohort, axis=1)[:, -nearest:]
    mean, deviation = cohort.mean(axis=1), cohort.std(axis=1)
    return ((scores - mean[i]) / deviation[i] + (scores - mean[j]) / deviation[j]) / 2


def compare_cohorts(rows, labels, half, others=None):
    """Of pairs within either half of the identities; others: a cohort of another kind."""
    pairs = []
    for one in (0, 1):
        tested = np.flatnonzero((half == one) & (place_in_class(labels) < DRAWINGS))
        i, j = np.triu_indices(len(tested), 1)
        scores = {"cosine": np.einsum("pd,pd->p", rows[tested][i], rows[tested][j])}
        for kind, cohort in {"same": rows[half != one], "others": others}.items():
            if cohort is not None:
                near = rows[tested] @ cohort.T
                scores[f"S-norm, {kind}"] = normalize(scores["cosine"], i, j, near)
                scores[f"AS-norm, {kind}"] = normalize(scores["cosine"], i, j, near, NEAREST)
        pairs.append({**scores, "first": labels[tested][i], "second": labels[tested][j]})
    scores = {name: np.concatenate([each[name] for each in pairs]) for name in pairs[0]}
    first, second = scores.pop("first"), scores.pop("second")
    results = {name: judge(values, first, second) for name, values in scores.items()}
    found = {"identities": int(labels.max()) + 1, "pairs": len(first)}
    for name, result in results.items():
        found[name] = {"tar": result.tar_at_far[FAR], "eer": result.eer}
        print(f"{name:<16}TAR {result.tar_at_far[FAR]:.4f}   EER {result.eer:.4f}", end="")
        for title, at in (("tar_at_far", FAR), ("eer", None)) if name != "cosine" else ():
            difference = paired(result, results["cosine"], title, at)
            found[name][f"{title}_gain"] = shown(difference)
            print(f"   {title} {difference.sentence()}", end="")
        print(flush=True)
    return found


def compare_alphabets(options):
    data = evaluation_data(train_short(options), part="unseen")
    rows, others = (unit(part.embeddings) for part in (data.embeddings, data.validation))
    labels = data.embeddings.labels
    return compare_cohorts(rows, labels, labels % 2, others)


def unit(rows):
    return np.asarray(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


def place_in_class(labels):
    """How many of its label come before each row."""
    order = np.argsort(labels, kind="stable")
    starts = np.cumsum(np.bincount(labels)) - np.bincount(labels)
    places = np.empty(len(labels), dtype=int)
    places[order] = np.arange(len(labels)) - starts[labels[order]]
    return places


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="faces,cohort")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--detector", type=Path)
    parser.add_argument("--recognizer", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-calibration-inputs"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    if "faces" in options.parts:
        options.detector = options.detector or YUNET.find()
        options.recognizer = options.recognizer or SFACE.find()
        for name, shrink in (("lfw-sample", False), ("orl", False), ("lfw-sample", True)):
            title = f"{name}{', every second photo at a third' * shrink}"
            print(f"\n{title}")
            found[title] = compare_inputs(name, shrink, options)
    if "cohort" in options.parts:
        print("\nOmniglot, five alphabets never seen")
        found["omniglot"] = compare_alphabets(options)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "calibration_inputs.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | found, indent=1) + "\n")


if __name__ == "__main__":
    main()
