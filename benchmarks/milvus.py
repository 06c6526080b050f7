"""A gallery in a real Milvus: what it costs, what survives, and what approximate indexes overlook.

    python benchmarks/milvus.py                                      starts a server, 5,000 subjects
    python benchmarks/milvus.py --subjects 300 --dim 32 --probes 20  to see that it works
    python benchmarks/milvus.py --server milvus://localhost:19530    a server of your own
    python benchmarks/milvus.py --server milvus:/tmp/lite.db         Milvus Lite

Measured, with the bar where there is one:

- enroll many: samples a second by `enroll_many` (1,000).
- identify: milliseconds for one probe, under session and under strong consistency.
- two writers: operations a second of each of two processes that enroll the same ten subjects at
  once (20), and samples lost (0).
- restart: samples lost when the server is killed (0), and seconds until an open gallery answers
  again; with a server that this started.
- for each index, beside the exact answers of a gallery in a file: the share of probes for which
  another, or lower, best score was found; of those enrolled and of strangers, the share that is
  recognized and let in, at the threshold that lets in one of a hundred strangers when everybody is
  compared. An index that overlooks somebody can lower both, and raise neither.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from arcset.errors import DataError
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.base import drop_gallery
from arcset.recognition.gallery.milvus_address import Address

RESULTS = Path(__file__).parent / "results"
FPIR = 0.01
BARS = {"enroll many": 1000, "two writers": 20}

WRITER = """
import json, sys, time
import numpy as np
from arcset import Gallery
path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Gallery.open(path) as gallery:
    rows = np.random.default_rng(seed).normal(size=(count, gallery.dim))
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.perf_counter()
    made = [gallery.enroll(f"shared {n % 10}", embeddings=row)[0] for n, row in enumerate(rows)]
    print(json.dumps([count / (time.perf_counter() - started), made]))
"""


def planted(subjects, dim, probes, seed=0):
    """Samples, names, probes of those enrolled and whose they are, and strangers: unit rows."""
    rng = np.random.default_rng(seed)
    # Neighbours share a direction, as people who look alike do: else no stranger comes near.
    families = rng.standard_normal((max(2, subjects // 20), dim), dtype=np.float32)

    def people(count):
        which = rng.integers(0, len(families), count)
        return families[which] + 0.7 * rng.standard_normal((count, dim), dtype=np.float32)

    def shots(who):
        rows = who + 0.75 * rng.standard_normal(who.shape, dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    known, strangers = people(subjects), people(probes)
    chosen = rng.integers(0, subjects, probes)
    names = [f"subject {number // 2:07d}" for number in range(2 * subjects)]
    owners = np.array([f"subject {number:07d}" for number in chosen])
    return shots(np.repeat(known, 2, axis=0)), names, shots(known[chosen]), owners, shots(strangers)


def best(gallery, probes, at_once=64):
    """The name and score of the best subject for each probe."""
    names, scores = [], []
    for start in range(0, len(probes), at_once):
        found, values = gallery.search(probes[start : start + at_once], 1)
        names += [one[0] if one else None for one in found]
        scores += values[:, 0].tolist()
    return np.array(names), np.nan_to_num(np.array(scores), nan=-1.0)


def timed(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def identify_ms(path, probes):
    """The median of a question with one probe."""
    with Gallery.open(path, read_only=True) as gallery:
        gallery.identify(embedding=probes[0], threshold=0.5)
        each = [
            timed(lambda probe=probe: gallery.identify(embedding=probe, threshold=0.5))
            for probe in probes[:30]
        ]
    return 1000 * statistics.median(each)


def two_writers(path, count):
    """The lower of the rates, and how many samples were lost."""
    with Gallery.open(path, read_only=True) as gallery:
        before = gallery.sample_count
    words = [sys.executable, "-c", WRITER, path]
    writers = [
        subprocess.Popen(
            [*words, str(seed), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    told = [json.loads(writer.communicate()[0]) for writer in writers]
    made = {number for _, numbers in told for number in numbers}
    with Gallery.open(path) as gallery:
        there = {one.id for n in range(10) for one in gallery.samples(f"shared {n}")}
        lost = len(made - there) + 2 * count - len(made) + before + 2 * count - gallery.sample_count
        for number in range(10):
            gallery.remove(f"shared {number}")
    return min(rate for rate, _ in told), lost


def restart(server, path):
    """Samples lost when the server is killed, and seconds until an open gallery answers again."""
    with Gallery.open(path) as gallery:
        rows, names = gallery.labelled()
        os.kill(server.process, signal.SIGKILL)
        server.start()
        seconds = timed(lambda: answer_again(gallery, rows[:1]))
        found, owners = gallery.labelled()
        kept = {(name, row.tobytes()) for name, row in zip(owners, found, strict=True)}
        lost = sum((name, row.tobytes()) not in kept for name, row in zip(names, rows, strict=True))
    return lost, seconds


def answer_again(gallery, probe, patience=120):
    """Ask until there is an answer: a server that started needs a while to load its collections."""
    started = time.perf_counter()
    while True:
        try:
            return gallery.search(probe, 1)
        except DataError:
            if time.perf_counter() - started > patience:
                raise
            time.sleep(0.2)


class Server:
    """A real Milvus on this machine, see `tools/milvus_server.py`."""

    def __init__(self, folder):
        self._folder, self._running = folder, None
        self.start()

    def start(self):
        self.stop()
        tool = Path(__file__).parents[1] / "tools" / "milvus_server.py"
        self._running = subprocess.Popen(
            [sys.executable, str(tool), "--data", self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.address, number = self._running.stdout.readline().split()
        self.process = int(number)

    def stop(self):
        if self._running is not None:
            self._running.communicate()


def measure_index(path, data, exact):
    """What is overlooked; `exact` is of a gallery in a file, or None for that itself."""
    rows, names, known, owners, strangers = data
    with Gallery.open(path, dim=rows.shape[1]) as gallery:
        enrolling = timed(lambda: gallery.enroll_many(names, embeddings=rows))
        if not isinstance(gallery.path, Path):
            gallery.compact()
        found, scores = best(gallery, np.concatenate([known, strangers]))
    if exact is None:
        exact = found, scores, float(np.quantile(scores[len(known) :], 1 - FPIR, method="higher"))
    names, truth, threshold = exact
    accepted = scores >= threshold
    return exact, {
        "overlooked": float(np.mean((found != names) | (scores < truth - 1e-9))),
        "recognized": float(np.mean(accepted[: len(known)] & (found[: len(known)] == owners))),
        "let in": float(np.mean(accepted[len(known) :])),
        "highest gain": float(np.max(scores - truth)),
        "enrolled a second": len(rows) / enrolling,
    }


def run(options, data, folder, server):
    results = {"subjects": options.subjects, "dim": options.dim, "indexes": {}}
    exact, results["indexes"]["file"] = measure_index(Path(folder) / "g.db", data, None)
    base = options.server or server.address
    for index in options.indexes.split(","):
        path = f"{base}/bench_{index}_{time.time_ns()}"
        try:
            _, results["indexes"][index] = measure_index(f"{path}?index={index}", data, exact)
            if index == "flat":
                results["enroll many"] = results["indexes"][index]["enrolled a second"]
                for level in ("session", "strong"):
                    results[f"identify, {level}, ms"] = identify_ms(
                        f"{path}?consistency={level}", data[2]
                    )
                if Address.parse(path).file is None:  # Lite is for one process
                    results["two writers"], results["two writers, lost"] = two_writers(path, 100)
                if server is not None:
                    lost, seconds = restart(server, path)
                    results |= {"restart, lost": lost, "restart, seconds": seconds}
        finally:
            drop_gallery(path)
    return results


def failures(results):
    """What is below its bar."""
    file, indexes = results["indexes"]["file"], results["indexes"]
    return [
        *(f"{name}: {results[name]:.0f} < {bar}" for name, bar in BARS.items()
          if name in results and results[name] < bar),
        *(f"{name}: {count}" for name, count in results.items()
          if name.endswith("lost") and count),
        *(f"{name} lets in more than comparing everybody does" for name, found in indexes.items()
          if found["highest gain"] > 1e-9 or found["let in"] > file["let in"]),
        *(["flat overlooked somebody"] if indexes.get("flat", file)["overlooked"] else []),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--subjects", type=int, default=5_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--probes", type=int, default=500)
    parser.add_argument("--indexes", default="flat,hnsw,ivf_flat")
    parser.add_argument("--server", help="milvus://host:port or milvus:folder/file.db")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    data = planted(options.subjects, options.dim, options.probes)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = None
        if options.server is None:
            server = Server(f"{folder}/server")
            stack.callback(server.stop)
        results = run(options, data, folder, server)
    print(f"{options.subjects:,} subjects, {len(data[0]):,} samples × {options.dim}")
    for name, value in results.items():
        if isinstance(value, int | float) and name not in ("subjects", "dim"):
            print(f"{name:<24}{value:>12.4g}{f'   bar {BARS[name]:,}' if name in BARS else ''}")
    columns = list(results["indexes"]["file"])
    print(f"{'':<10}" + "".join(f"{name:>19}" for name in columns))
    for name, found in results["indexes"].items():
        print(f"{name:<10}" + "".join(f"{found[column]:>19.4g}" for column in columns))
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2)
    (options.out / "milvus.json").write_text(f"{text}\n", encoding="utf-8")
    if wrong := failures(results):
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
