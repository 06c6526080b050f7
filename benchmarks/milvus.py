"""A gallery in Milvus: what approximate indexes overlook, and what a question costs.

    python benchmarks/milvus.py [--subjects 20000] [--dim 256] [--probes 500] [--indexes flat,hnsw]
    python benchmarks/milvus.py --subjects 300 --dim 32 --probes 20          to see that it works
    python benchmarks/milvus.py --server milvus://localhost:19530            a server of your own

One gallery for each index, of planted subjects with two samples each. Probes are half of those
enrolled and half of strangers. For each index, beside the exact answers of a gallery in a file:

- overlooked: the share of probes for which another, or lower, best score was found.
- recognized, let in: of those enrolled and of strangers, at the threshold that lets in one of a
  hundred strangers when everybody is compared. An index that overlooks somebody can lower both, and
  raise neither: the run fails if it did.
- seconds: to enroll all, for a question with one probe, and for each of many probes in one.

Without --server this is Milvus Lite in the same process, written in Python: what it overlooks is
that of the same algorithms, while its times say nothing about a server's.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.milvus.collections import Collections
from arcset.recognition.gallery.milvus.connection import Connection

RESULTS = Path(__file__).parent / "results"
FPIR = 0.01


def planted(subjects, dim, probes, seed=0):
    """Samples, names, probes of those enrolled, and of strangers: unit rows."""
    rng = np.random.default_rng(seed)
    # Neighbours share a direction, as people who look alike do: else no stranger comes near.
    families = rng.standard_normal((max(2, subjects // 20), dim), dtype=np.float32)
    spread = 1.5

    def people(count):
        which = rng.integers(0, len(families), count)
        return families[which] + 0.7 * rng.standard_normal((count, dim), dtype=np.float32)

    def shots(who):
        return unit(who + spread * 0.5 * rng.standard_normal(who.shape, dtype=np.float32))

    known, strangers = people(subjects), people(probes)
    chosen = rng.integers(0, subjects, probes)
    names = [f"subject {number // 2:07d}" for number in range(2 * subjects)]
    return shots(np.repeat(known, 2, axis=0)), names, shots(known[chosen]), shots(strangers), chosen


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def answers(gallery, probes, at_once=64):
    """The name and score of the best subject for each probe."""
    names, scores = [], []
    for start in range(0, len(probes), at_once):
        found, values = gallery.search(probes[start : start + at_once], 1)
        names += [one[0] if one else None for one in found]
        scores += values[:, 0].tolist() if values.shape[1] else [np.nan] * len(found)
    return np.array(names), np.nan_to_num(np.array(scores), nan=-1.0)


def timed(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def settle(gallery):
    """Until all that was enrolled is in the index, and not compared one by one."""
    gallery.compact()
    for _ in range(600):
        found = gallery._connection.call("describe_index", gallery.path.collection, "embedding")
        if not int(found.get("pending_index_rows") or 0):
            return
        time.sleep(0.5)


def discard(path):
    """Leave nothing on the server."""
    connection = Connection(Address.parse(path))
    Collections(connection).drop()
    connection.close()


def measure(path, rows, names, known, strangers, chosen, exact):
    with Gallery.open(path, dim=rows.shape[1]) as gallery:
        enrolling = timed(lambda: gallery.enroll_many(names, embeddings=rows))
        if not isinstance(gallery.path, Path):
            settle(gallery)
        probes = np.concatenate([known, strangers])
        started = time.perf_counter()
        found, scores = answers(gallery, probes)
        each = (time.perf_counter() - started) / len(probes)
        alone = [timed(lambda one=one: gallery.search(one, 1)) for one in probes[:20]]
    if exact is None:
        exact = found, scores, float(np.quantile(scores[len(known) :], 1 - FPIR, method="higher"))
    best, truth, threshold = exact
    right = [f"subject {number:07d}" for number in chosen]
    accepted = scores >= threshold
    return exact, {
        "overlooked": float(np.mean((found != best) | (scores < truth - 1e-9))),
        "recognized": float(np.mean(accepted[: len(known)] & (found[: len(known)] == right))),
        "let in": float(np.mean(accepted[len(known) :])),
        "highest gain": float(np.max(scores - truth)),
        "enrolled a second": len(rows) / enrolling,
        "seconds alone": statistics.median(alone),
        "seconds each": each,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--subjects", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--probes", type=int, default=500)
    parser.add_argument("--indexes", default="flat,hnsw,ivf_flat")
    parser.add_argument("--server", help="milvus://host:port instead of Milvus Lite")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    data = planted(options.subjects, options.dim, options.probes)
    results = {"settings": {"subjects": options.subjects, "dim": options.dim}, "indexes": {}}
    with tempfile.TemporaryDirectory() as folder:
        exact, results["indexes"]["file"] = measure(Path(folder) / "g.db", *data, None)
        for index in options.indexes.split(","):
            base = options.server or f"milvus:{folder}/{index}.db"
            path = f"{base}/bench_{index}_{time.time_ns()}?index={index}"
            try:
                _, results["indexes"][index] = measure(path, *data, exact)
            finally:
                discard(path)
    columns = list(results["indexes"]["file"])
    print(f"{options.subjects:,} subjects, {len(data[0]):,} samples × {options.dim}")
    print(f"{'':<10}" + "".join(f"{name:>19}" for name in columns))
    for name, found in results["indexes"].items():
        print(f"{name:<10}" + "".join(f"{found[column]:>19.4g}" for column in columns))
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2)
    (options.out / "milvus.json").write_text(f"{text}\n", encoding="utf-8")
    file = results["indexes"]["file"]
    for name, found in results["indexes"].items():
        if found["highest gain"] > 1e-9 or found["let in"] > file["let in"]:
            raise SystemExit(f"{name} lets in more than comparing everybody does")
    if "flat" in results["indexes"] and results["indexes"]["flat"]["overlooked"]:
        raise SystemExit("flat overlooked somebody")


if __name__ == "__main__":
    main()
