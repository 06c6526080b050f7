"""How often 95 % intervals hold the truth, and how wide they are.

    python benchmarks/coverage.py [--sets 1000] [--identities 20,50,200] [--world judged]

Sets of identities are drawn from one population, again and again. Its identities have samples that
scatter about their center by a lognormal spread, as some people are harder than others; and half
of them belong to families, whose centers lie close together. Every set is measured, and each
interval is held against the truth: what pairs of the whole population come to, and for searches,
which are harder among more identities, the mean over fresh sets of the same size.

The table shows, by measure and number of identities, the share of intervals that hold the truth,
and their median width beside the range of the central 95 % of the estimates: `percentile` is the
central 95 % of the bootstrap's draws, `interval` what results show. Its constants were chosen on
worlds such as those of `--world chosen-…`, not on the judged ones.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from arcset.evaluation import identification, retrieval, verification
from arcset.evaluation.results import central

RESULTS = Path(__file__).parent / "results"
MEASURES = ("auc", "eer", "tar_at_far[0.1]", "tar_at_far[0.01]", "recall_at[1]", "rank[1]")
FARS = (0.1, 0.01)
CELLS = 20_000  # of the histograms of cosines

#: dim: of embeddings; samples: of each identity; noise: median distance of a sample from its
#: center; spread: σ of its logarithm between identities; families: share of the identities that
#: are in one of so many families; near: distance of their centers from that of the family.
WORLDS = {
    "judged": {"families": 0.5, "of": 10, "spread": 0.35},
    "judged-pairs": {"families": 0.5, "of": None, "spread": 0.35},
    "chosen-hard": {"dim": 16, "samples": 4, "noise": 0.55, "spread": 0.6},
    "chosen-easy": {"dim": 32, "samples": 3, "noise": 0.7, "spread": 0.2},
    "chosen-many-samples": {"dim": 32, "samples": 8, "noise": 0.7, "spread": 0.5},
    "chosen-some-families": {
        "dim": 16, "samples": 4, "noise": 0.5, "spread": 0.25, "families": 0.3, "of": 5, "near": 0.6
    },
    "chosen-many-families": {
        "dim": 48, "samples": 6, "noise": 0.8, "spread": 0.45, "families": 0.8, "of": 20, "near": .4
    },
}  # fmt: skip


class World:
    """A population that sets are drawn from."""

    def __init__(
        self, dim=24, samples=5, noise=0.55, spread=0.35, families=0.0, of=10, near=0.5
    ) -> None:
        self.dim, self.samples, self.noise, self.spread = dim, samples, noise, spread
        self.families, self.near = families, near
        self.heads = None if of is None else np.random.default_rng(7).normal(size=(of, dim))

    def draw(self, rng, identities):
        """Unit embeddings (identities · samples, dim) in float32, and their labels."""
        centers = rng.normal(size=(identities, self.dim))
        if self.heads is None:  # families of two, which come together
            members = 2 * int(identities * self.families / 2)
            heads = np.repeat(rng.normal(size=(members // 2, self.dim)), 2, axis=0)
        else:
            members = rng.binomial(identities, self.families)
            heads = self.heads[rng.integers(len(self.heads), size=members)]
        centers[:members] = heads + self.near * centers[:members]
        centers /= np.linalg.norm(centers, axis=1, keepdims=True)
        scatter = self.noise * np.exp(self.spread * rng.normal(size=identities))
        noise = rng.normal(size=(identities, self.samples, self.dim)) / self.dim**0.5
        rows = (centers[:, None] + scatter[:, None, None] * noise).reshape(-1, self.dim)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.astype(np.float32), np.repeat(np.arange(identities), self.samples)

    def truth(self, rng, identities, sets):
        """The measures of the population, in their order."""
        counts = np.zeros((2, CELLS))
        searches = []
        for _ in range(sets):
            rows, labels = self.draw(rng, identities)
            i, j = np.triu_indices(len(rows), 1)
            cells = ((rows @ rows.T)[i, j] + 1) * (CELLS / 2)
            cells = cells.astype(np.int64).clip(0, CELLS - 1)
            same = labels[i] == labels[j]
            counts += [np.bincount(cells[kind], minlength=CELLS) for kind in (same, ~same)]
            searches.append([search.measures()[name] for search, name in self.search(rows, labels)])
        tar, far = np.cumsum(counts[:, ::-1], axis=1) / counts.sum(axis=1, keepdims=True)
        at_equal = np.argmin(abs(far + tar - 1))
        pairs = [np.trapezoid(tar, far), (far[at_equal] + 1 - tar[at_equal]) / 2]
        return np.array([*pairs, *np.interp(FARS, far, tar), *np.mean(searches, axis=0)])

    def search(self, rows, labels, **options):
        """Retrieval among all, and identification of all but each one's first sample by it."""
        first = np.arange(len(rows)) % self.samples == 0
        yield retrieval(rows, labels, ks=(1,), **options), "recall_at[1]"
        found = identification(
            rows[first],
            labels[first],
            rows[~first],
            labels[~first],
            ranks=(1,),
            fpirs=(),
            **options,
        )
        yield found, "rank[1]"


def cover(world, identities, sets, seed, draws):
    """For each measure how the intervals of so many sets do."""
    rng = np.random.default_rng((seed, identities))
    truth = world.truth(rng, identities, max(200, min(2000, 200_000 // identities)))
    estimates, ends = [], []
    for number in range(sets):
        rows, labels = world.draw(rng, identities)
        options = {"intervals": True, "draws": draws, "seed": number}
        pairs = verification(rows, labels, FARS, **options)
        found = [(pairs, name) for name in MEASURES[:4]]
        found += world.search(rows, labels, **options)
        estimates.append([result.measures()[name] for result, name in found])
        ends.append(
            [
                (central(result.replicates.values[name]), result.interval(name))
                for result, name in found
            ]
        )
    low, high = np.moveaxis(np.array(ends), -1, 0)  # (sets, measures, 2)
    rounding = 1e-9
    held = (low <= truth[:, None] + rounding) & (high >= truth[:, None] - rounding)
    range_ = np.diff(np.quantile(estimates, [0.025, 0.975], axis=0), axis=0)[0]
    width = np.median(high - low, axis=0) / range_[:, None]
    return [
        {
            "measure": name,
            "identities": identities,
            "truth": truth[k],
            "mean": float(np.mean(estimates, axis=0)[k]),
            "range": range_[k],
            **{
                form: {"coverage": held[:, k, f].mean(), "width": width[k, f]}
                for f, form in enumerate(("percentile", "interval"))
            },
        }
        for k, name in enumerate(MEASURES)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--identities", default="20,50,200")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", choices=WORLDS, default="judged")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()

    world, cells = World(**WORLDS[options.world]), []
    print(f"\n{options.sets:,} sets a cell, {options.world}")
    print(f"{'':<18} {'':>10} {'':>7}  {'percentile':>16}  {'interval':>16}")
    print(
        f"{'measure':<18} {'identities':>10} {'truth':>7}" + f"  {'coverage':>9} {'width':>6}" * 2
    )
    for identities in map(int, options.identities.split(",")):
        started = time.perf_counter()
        for cell in cover(world, identities, options.sets, options.seed, options.draws):
            cells.append(cell)
            forms = "".join(
                f"  {cell[form]['coverage']:9.1%} {cell[form]['width']:6.2f}"
                for form in ("percentile", "interval")
            )
            print(f"{cell['measure']:<18} {identities:>10} {cell['truth']:>7.4f}{forms}")
        print(f"{time.perf_counter() - started:.0f} s", flush=True)
    options.out.mkdir(exist_ok=True)
    path = options.out / f"coverage-{options.world}.json"
    path.write_text(json.dumps({"sets": options.sets, "draws": options.draws, "cells": cells}))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
