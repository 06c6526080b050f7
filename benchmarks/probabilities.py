"""Whether probabilities keep what they say to fresh identities, by number of validation identities.

    python benchmarks/probabilities.py [--worlds 200] [--identities 20,50,200]

In each world a calibration is made from the pairs of a few identities, by each method, and judged
on 72,000 pairs of 1,200 fresh ones, both kinds weighted equally. The calibration error is over 15
bins of equal mass; the log loss is compared with isotonic calibration's, world by world.

`form known` is the calibration error of a curve that has the form of the fresh pairs' own, of which
only level and slope are found from the few identities. So it shows how much of the error is chance:
other identities than these few.

`true` is the share of smooth calibrations that lie within the 99 % Wilson interval of the counts of
their own pairs in each of 15 bins; then the share of all these bins.

The populations are those of `coverage.py`: identities of equal difficulty, of unequal difficulty
with half of them in families, and one of those that the constants of the smooth curve were chosen
on.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from coverage import WORLDS, World
from scipy.special import logit

from arcset.evaluation.calibration.probability import (
    calibrate,
    calibrate_identities,
    untrue_bins,
)
from arcset.evaluation.pairs import pair_cosines

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
    form = calibrate(cosines, same, stiffness=1e-7)
    found, known = np.empty((worlds, len(METHODS), 2)), []
    untrue = np.empty((worlds, len(METHODS), BINS), dtype=bool)
    for number in range(worlds):
        points, labels = world.draw(np.random.default_rng((2, identities, number)), identities)
        pairs = pair_cosines(points, labels)
        for place, method in enumerate(METHODS):
            calibration = calibrate_identities(points, labels, method)
            found[number, place] = judge(calibration.probability(cosines), same)
            untrue[number, place] = untrue_bins(calibration, *pairs)
        line = calibrate(logit(form.probability(pairs[0])), pairs[1], "logistic")
        known.append(judge(line.probability(logit(form.probability(cosines))), same)[0])
    behind = found[:, 0, 1] - found[:, 1, 1]
    half = 1.96 * behind.std(ddof=1) / worlds**0.5
    return {
        "population": name,
        "identities": identities,
        "worlds": worlds,
        "pairs": len(cosines),
        "error": dict(zip(METHODS, found[:, :, 0].mean(axis=0), strict=True)),
        "log_loss": dict(zip(METHODS, found[:, :, 1].mean(axis=0), strict=True)),
        "form_known": float(np.mean(known)),
        "true": dict(zip(METHODS, (~untrue).all(axis=2).mean(axis=0), strict=True)),
        "true_bins": dict(zip(METHODS, (~untrue).mean(axis=(0, 2)), strict=True)),
        "behind_isotonic": [behind.mean() - half, behind.mean(), behind.mean() + half],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--identities", default="20,50,200")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    cells = []
    print(f"{'population':<13}{'identities':>10}  {'calibration error':<26}", end="")
    print(f"{'form known':<12}{'log loss':<26}{'smooth less isotonic':<32}true, bins")
    print(f"{'':<25}{'  '.join(METHODS):<38}{'  '.join(METHODS)}")
    for name in POPULATIONS:
        for identities in map(int, options.identities.split(",")):
            cell = run(name, identities, options.worlds)
            cells.append(cell)
            errors, losses = (
                "  ".join(f"{cell[kind][method]:.4f}" for method in METHODS)
                for kind in ("error", "log_loss")
            )
            low, mean, high = cell["behind_isotonic"]
            print(f"{name:<13}{identities:>10}  {errors:<26}{cell['form_known']:<12.4f}", end="")
            print(f"{losses:<26}{f'{mean:+.5f} [{low:+.5f}, {high:+.5f}]':<32}", end="")
            print(f"{cell['true']['smooth']:.3f}, {cell['true_bins']['smooth']:.4f}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"cells": cells}, indent=1)
    (options.out / "probabilities.json").write_text(f"{content}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
