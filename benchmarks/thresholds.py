"""How often fresh identities show a rate within the interval that a threshold came with.

    python benchmarks/thresholds.py [--worlds 300] [--identities 8,20,50,200]

In each world a validation set of a few identities is drawn, five samples each, and thresholds are
made for FARs of 0.1 to 0.001, and for FPIRs of 0.1 and 0.01 with a gallery of as many subjects as
there are identities and of ten times as many. Then a test of 1,000 fresh identities is drawn from
the same population, with one sample each, and its rates are held against the 95 % prediction
intervals. The populations are those of `coverage.py`: identities of equal difficulty, and of
unequal difficulty with half of them in families that look alike; the constants of the intervals
were chosen by looking at these and at `--populations hard,families`.

The table has, by cell: the share of intervals that hold the rate; their median width beside the
range of the central 95 % of the rates, both on a logarithmic scale; the share of thresholds that
are rough, and of those pinned down within a factor of 100. Rates below half of what the test can
show count as that.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from coverage import WORLDS, World

from arcset.evaluation.calibration.table import (
    RateTable,
    find_far_threshold,
    find_fpir_threshold,
)
from arcset.evaluation.pairs import ImpostorPairs

RESULTS = Path(__file__).parent / "results"
POPULATIONS = {
    "equal": {"spread": 0.0},
    "judged": WORLDS["judged"],
    "hard": WORLDS["chosen-hard"],
    "families": WORLDS["chosen-many-families"],
}
FRESH = 1000
PAIRS = FRESH * (FRESH - 1) // 2
#: Name, rate, and how many times as many subjects as identities; 0 for pairs.
QUESTIONS = (
    ("FAR", 0.1, 0),
    ("FAR", 0.01, 0),
    ("FAR", 0.001, 0),
    ("FPIR", 0.1, 1),
    ("FPIR", 0.01, 1),
    ("FPIR", 0.1, 10),
    ("FPIR", 0.01, 10),
)


def draw_single(world, rng, identities):
    """One sample (identities, dim) each, in any order."""
    rows, labels = world.draw(rng, identities)
    return rows[np.unique(labels, return_index=True)[1]][rng.permutation(identities)]


def try_world(world, seed, identities):
    """For each question: the rate seen, the interval, whether it is rough, and pinned down."""
    rng = np.random.default_rng(seed)
    pairs = ImpostorPairs.of(*world.draw(rng, identities))
    table = RateTable.of(pairs)
    points = draw_single(world, rng, FRESH)
    impostor = (points @ points.T)[np.triu_indices(FRESH, 1)]
    best = {}
    for times in (1, 10):
        rows = draw_single(world, rng, FRESH + times * identities)
        best[times] = (rows[:FRESH] @ rows[FRESH:].T).max(axis=1)
    found = []
    for _, rate, times in QUESTIONS:
        if times:
            size = times * identities
            made = find_fpir_threshold(pairs, rate, size) or table.for_fpir(rate, size)
            scores = best[times]
        else:
            made = find_far_threshold(pairs, rate) or table.for_far(rate)
            scores = impostor
        seen = float((scores >= made.threshold).mean())
        found.append((seen, *made.expect(FRESH), made.rough, made.pinned))
    return found


def summarize(population, identities, question, worlds):
    """A cell from its worlds (W, 5)."""
    kind, rate, times = question
    seen, low, high, rough, pinned = worlds.T
    least = 0.5 / (FRESH if times else PAIRS)
    logs = [np.log(np.maximum(part, least)) for part in (seen, low, high)]
    width = float(np.median(logs[2] - logs[1]))
    spread = float(np.subtract(*np.quantile(logs[0], [0.975, 0.025])))
    return {
        "population": population,
        "identities": identities,
        "rate": f"{kind} {rate:g}",
        "gallery": times * identities,
        "held": float(np.mean((seen >= low - 1e-12) & (seen <= high + 1e-12))),
        "width": width,
        "spread": spread,
        "rough": float(rough.mean()),
        "pinned": float(pinned.mean()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=300)
    parser.add_argument("--identities", default="8,20,50,200")
    parser.add_argument("--populations", default="equal,judged")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    cells = []
    print(f"{'population':<11}{'identities':>10}  {'rate':<11}{'gallery':>7}", end="")
    print(f"{'held':>8}{'width':>7} / spread {'':<6}{'rough':>6}{'pinned':>8}")
    for name in options.populations.split(","):
        world = World(**POPULATIONS[name])
        for identities in map(int, options.identities.split(",")):
            worlds = np.array(
                [try_world(world, (5, identities, n), identities) for n in range(options.worlds)]
            )
            for number, question in enumerate(QUESTIONS):
                cell = summarize(name, identities, question, worlds[:, number])
                cells.append(cell)
                ratio = f"{cell['width']:.2f} / {cell['spread']:.2f}"
                print(f"{name:<11}{identities:>10}  {cell['rate']:<11}{cell['gallery']:>7}", end="")
                print(
                    f"{cell['held']:8.1%}  {ratio:<12} = {cell['width'] / cell['spread']:4.2f}",
                    end="",
                )
                print(f"{cell['rough']:7.0%}{cell['pinned']:8.0%}", flush=True)
    held = [cell["held"] for cell in cells]
    print(f"all {len(cells)} cells {np.mean(held):.1%}, the lowest {min(held):.1%}")
    options.out.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"worlds": options.worlds, "cells": cells}, indent=1)
    (options.out / "thresholds.json").write_text(f"{content}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
