"""What thresholds of their own gain where subjects have several images, and whether they hold.

    python benchmarks/templates.py [--worlds 20] [--data omniglot simulated]

A calibration is made from 200 identities with ten samples each, and tried on fresh ones: a gallery
of 100 subjects, with some images each, is searched for another image of each subject and for one of
each of 500 strangers. Two thresholds stand beside each other: that of single images, for which
images count as subjects where the best ones score, and that of sets of so many images. FPIR is the
share of the strangers who are taken for somebody, TPIR the share of the subjects who are found and
accepted. `uneven` galleries have one image of every second subject, and nine of the others. The
last columns are the error of the probabilities: ECE, in 15 bins of equal mass, genuine and impostor
scores weighing the same.

`simulated` identities are those of tests/evaluation/calibration/simulation.py. For `omniglot` a
small network learns 100 characters; the other 864 are drawn from, so that draws overlap.
"""

import argparse
import json
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from arcset import Recognizer
from arcset.data.named.fetch import data_folders
from arcset.evaluation import make_thresholds
from arcset.evaluation.calibration.templates import Scoring
from arcset.recognition.decisions import working_point
from arcset.runs import RunConfig
from arcset.training import train

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from evaluation.calibration.simulation import draw_identities

RESULTS = Path(__file__).parent / "results"
CALIBRATING, EACH, SUBJECTS, STRANGERS = 200, 10, 100, 500
FPIRS = (0.1, 0.03, 0.01)
CASES = (
    ("max", 1), ("mean", 3), ("mean", 5), ("top-2", 5), ("top-3", 5), ("max", 3), ("max", 5),
    ("mean", "uneven"), ("top-3", "uneven"), ("max", "uneven"),
)  # fmt: skip
BINS = 15


def simulated(rng):
    points = draw_identities(
        rng, CALIBRATING + SUBJECTS + STRANGERS, EACH, decay=6.0, spread=0.3, noise=1.2
    )
    return points.astype(np.float32)


def omniglot(folder):
    """Embeddings (characters, 20, D) that a small network gives to characters new to it."""
    archive = next(place for place in data_folders("omniglot") if place.is_dir())
    with zipfile.ZipFile(archive / "images_background.zip") as zipped:
        zipped.extractall(folder)
    places = sorted({path.parent for path in folder.rglob("*.png")})
    places = [places[k] for k in np.random.default_rng(0).permutation(len(places))]
    for place in places[:100]:
        (folder / "train").mkdir(exist_ok=True)
        place.rename(folder / "train" / f"{place.parent.name}-{place.name}")
    config = RunConfig(
        data=str(folder / "train"),
        size=(28, 28),
        channels=1,
        invert=True,
        network="glyph",
        dim=64,
        epochs=20,
        batch=64,
        scale=16.0,
        margin=0.2,
        snapshot=0,
    )
    run = train(config, folder / "run", device="cpu")
    files = [path for place in places[100:] for path in sorted(place.glob("*.png"))]
    return Recognizer.load(run.path, device="cpu").embed(files).reshape(len(places) - 100, 20, -1)


def draw(points, rng):
    """Identities for calibration, subjects and strangers, with ten samples each in any order."""
    points = points[rng.permutation(len(points))][: CALIBRATING + SUBJECTS + STRANGERS]
    return points[:, rng.permutation(points.shape[1])[:EACH]]


def search(points, scoring, images):
    """Scores (subjects, subjects) of a subject's last sample, and (strangers, subjects)."""
    enrolled = points[CALIBRATING:][:SUBJECTS]
    probes = points[CALIBRATING:, EACH - 1]
    cosines = np.einsum("pd,gsd->pgs", probes, enrolled[:, : EACH - 1])
    scores = np.empty(cosines.shape[:2])
    for k in range(SUBJECTS):
        count = images if images != "uneven" else (1, EACH - 1)[k % 2]
        scores[:, k] = scoring.score_sets(cosines[:, k, :count])
    return scores[:SUBJECTS], scores[SUBJECTS:]


def error(chances, same):
    """ECE of probabilities, both kinds weighing the same."""
    weight = np.where(same, 0.5 / same.sum(), 0.5 / (~same).sum())
    order = np.argsort(chances, kind="stable")
    bins = np.minimum((np.cumsum(weight[order]) * BINS).astype(int), BINS - 1)
    return np.abs(np.bincount(bins, (weight * (chances - same))[order])).sum()


def judge(points):
    """For each case, rate and kind of threshold: FPIR, TPIR, whether it kept its interval, ECE."""
    labels = np.repeat(np.arange(CALIBRATING), EACH)
    rows = points[:CALIBRATING].reshape(len(labels), -1)
    options = {"fars": (), "fpirs": (), "galleries": ()}
    singles = make_thresholds(rows, labels, **options)
    words = ("max", "mean", "top-2", "top-3")
    sets = make_thresholds(rows, labels, **options, scorings=words)
    found = {}
    for word, images in CASES:
        own, strangers = search(points, Scoring.of(word), images)
        counts = {1: 50, EACH - 1: 50} if images == "uneven" else {images: SUBJECTS}
        size = {"subjects": SUBJECTS, "samples": sum(k * n for k, n in counts.items())}
        score = np.diag(own)
        first = score >= own.max(axis=1)
        scores = np.concatenate((score, own[~np.eye(SUBJECTS, dtype=bool)], strangers.ravel()))
        same = np.arange(len(scores)) < SUBJECTS
        for kind, made in (("single", singles), ("sets", sets)):
            fitting = made.for_template(word, size["samples"] / SUBJECTS)
            ece = error(fitting.probability(scores), same)
            for fpir in FPIRS:
                point = working_point(made, **size, scoring=word, images=counts, fpir=fpir)
                seen = (strangers.max(axis=1) >= point.threshold).mean()
                accepted = (first & (score >= point.threshold)).mean()
                found[word, images, fpir, kind] = seen, accepted, ece
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--data", nargs="+", default=["simulated", "omniglot"])
    parser.add_argument("--out", type=Path, default=RESULTS / "templates.json")
    options = parser.parse_args()

    cells = []
    for data in options.data:
        with tempfile.TemporaryDirectory() as folder:
            known = omniglot(Path(folder)) if data == "omniglot" else None
        worlds = []
        for seed in range(options.worlds):
            rng = np.random.default_rng(seed)
            worlds.append(judge(simulated(rng) if known is None else draw(known, rng)))
        print(f"\n{data}, {options.worlds} draws: single images | sets")
        print("scoring  images  FPIR wanted     FPIR seen        TPIR          ECE")
        for key in dict.fromkeys(key[:3] for key in worlds[0]):
            means = [np.mean([world[*key, kind] for world in worlds], axis=0) for kind in KINDS]
            cells.append(
                {"data": data, **dict(zip(("scoring", "images", "fpir"), key, strict=True))}
            )
            for kind, values in zip(KINDS, means, strict=True):
                cells[-1][kind] = dict(zip(("fpir", "tpir", "ece"), values, strict=True))
            pairs = "   ".join(f"{one:.3f} | {two:.3f}" for one, two in zip(*means, strict=True))
            print(f"{key[0]:<8} {key[1]!s:>6}  {key[2]:>11}   {pairs}", flush=True)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({"worlds": options.worlds, "cells": cells}))
    print(f"written to {options.out}")


KINDS = ("single", "sets")

if __name__ == "__main__":
    main()
