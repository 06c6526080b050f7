"""Whether probabilities keep what they say to fresh identities, by number of validation identities.

    python benchmarks/probabilities.py [--worlds 200] [--identities 20,50,200]

In each world a calibration is made from the pairs of a few identities, by each method, and judged
on 72,000 pairs of 1,200 fresh ones, both kinds weighted equally. The calibration error is over 15
bins of equal mass; the log loss is compared with isotonic calibration's, world by world. The
populations are those of `coverage.py`: identities of equal difficulty, of unequal difficulty with
half of them in families, and one of those that the constants of the smooth curve were chosen on.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from coverage import WORLDS, World

from arcset.evaluation.calibration.probability import calibrate_identities

RESULTS = Path(__file__).parent / "results"
METHODS = ("smooth", "isotonic", "logistic")
POPULATIONS = {
    "equal": {"spread": 0.0},
    "judged": WORLDS["judged"],
    "chosen-hard": WORLDS["chosen-hard"],
}
BINS = 15
FRESH, IMPOSTORS = 1200, 60_000  # identities, and pairs


def judge(chances, same):
    """The calibration error and the log loss, both kinds of pairs weighted equally."""
    weight = np.where(same, 0.5 / same.sum(), 0.5 / (~same).sum())
    order = np.argsort(chances, kind="stable")
    bins = np.minimum((np.cumsum(weight[order]) * BINS).astype(int), BINS - 1)
    error = weight[order] * (chances[order] - same[order])
    loss = -(weight * np.log(np.where(same, chances, 1 - chances))).sum()
    return np.abs(np.bincount(bins, error)).sum(), loss


def draw_pairs(world, rng):
    """Cosines of all genuine pairs of fresh identities and of some impostor pairs."""
    points, labels = world.draw(rng, FRESH)
    first, second = np.triu_indices(world.samples, 1)
    starts = world.samples * np.arange(FRESH)[:, None]
    genuine = np.stack(((starts + first).ravel(), (starts + second).ravel()))
    others = rng.integers(len(points), size=(2, 2 * IMPOSTORS))
    others = others[:, labels[others[0]] != labels[others[1]]][:, :IMPOSTORS]
    first, second = np.concatenate((genuine, others), axis=1)
    cosines = np.einsum("pd,pd->p", points[first], points[second], dtype=np.float64)
    return cosines, labels[first] == labels[second]


def run(name, identities, worlds):
    """Mean figures of so many worlds, and the difference of the log losses with its interval."""
    world = World(**POPULATIONS[name])
    cosines, same = draw_pairs(world, np.random.default_rng((1, identities)))
    found = np.empty((worlds, len(METHODS), 2))
    for number in range(worlds):
        points, labels = world.draw(np.random.default_rng((2, identities, number)), identities)
        for place, method in enumerate(METHODS):
            chances = calibrate_identities(points, labels, method).probability(cosines)
            found[number, place] = judge(chances, same)
    behind = found[:, 0, 1] - found[:, 1, 1]
    half = 1.96 * behind.std(ddof=1) / worlds**0.5
    return {
        "population": name,
        "identities": identities,
        "worlds": worlds,
        "pairs": len(cosines),
        "error": dict(zip(METHODS, found[:, :, 0].mean(axis=0), strict=True)),
        "log_loss": dict(zip(METHODS, found[:, :, 1].mean(axis=0), strict=True)),
        "behind_isotonic": [behind.mean() - half, behind.mean(), behind.mean() + half],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--identities", default="20,50,200")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    cells = []
    print(
        f"{'population':<13}{'identities':>10}  calibration error: {', '.join(METHODS):<30}", end=""
    )
    print("log loss, smooth less isotonic")
    for name in POPULATIONS:
        for identities in map(int, options.identities.split(",")):
            cell = run(name, identities, options.worlds)
            cells.append(cell)
            errors = "  ".join(f"{cell['error'][method]:.4f}" for method in METHODS)
            low, mean, high = cell["behind_isotonic"]
            print(f"{name:<13}{identities:>10}  {errors:<49}", end="")
            print(f"{mean:+.5f} [{low:+.5f}, {high:+.5f}]", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"cells": cells}, indent=1)
    (options.out / "probabilities.json").write_text(f"{content}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
