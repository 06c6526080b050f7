"""Whether this tree trains the same weights as another commit, to the last bit.

    python tools/same_weights.py BASE

Trains three runs of one epoch, each in a worktree of the commit BASE and in this tree as it stands,
with the same data, seeds and number of threads, and compares every tensor of the weights and every
figure of metrics.jsonl but the timings. It takes about a minute. Everything goes through the
command line, so that BASE may be a commit in which all modules have other names.

Exit code 0: the same; 1: something differs; 2: wrong use, or a run that could not be trained.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ("model.safetensors", "loss.safetensors")
METRICS = "metrics.jsonl"
TIMINGS = {"seconds", "images_per_second"}
RENAMED: dict[str, str] = {}  # tensors that have another name now: before → after
SECONDS = 600


@dataclass(frozen=True)
class Training:
    """A run to train: the words after `arcset train`, and by how many processes."""

    words: str
    processes: int = 1

    def arguments(self, out: Path | str) -> list[str]:
        """All that follows `arcset`."""
        common = "--epochs 1 --seed 7 --device cpu --no-report"
        return ["train", *self.words.split(), *common.split(), "--out", str(out)]


TRAININGS = {
    "simple": Training(
        "mnist-sample --classes 0-1 --network simple --dim 16 --batch 100 --lr 0.01"
    ),
    "conv4": Training(
        "images --network conv4 --dim 16 --batch 16 --hold-out 0.1,0.1 --optimizer sgd --lr 0.05 "
        "--schedule cosine --augment affine:rotate=10 --set ema=0.3 --set validate_every=1"
    ),
    "shared": Training(
        "vectors.npz --network mlp --dim 16 --batch 64 --hold-out none --optimizer sgd --lr 0.05 "
        "--schedule cosine --augment none --set ema=0 --set share_centers=true --set sample=0.5",
        processes=2,
    ),
}


class FailedError(Exception):
    """A command that did not do what it should."""


def make_data(folder: Path) -> None:
    """Write what the runs are trained on: images of 16×16, which nothing has to resize; vectors."""
    random = np.random.default_rng(0)
    for name in range(24):
        pattern = random.integers(0, 256, (16, 16))
        (folder / f"images/{name:02d}").mkdir(parents=True)
        for number in range(8):
            noisy = np.clip(pattern + random.normal(0, 40, pattern.shape), 0, 255)
            file = folder / f"images/{name:02d}/{number}.png"
            Image.fromarray(noisy.astype(np.uint8)).save(file)
    labels = np.repeat(np.arange(60), 8)
    features = random.normal(0, 1, (60, 24))[labels] + random.normal(0, 0.3, (len(labels), 24))
    np.savez(folder / "vectors.npz", features=features.astype(np.float32), labels=labels)


def contents(run: Path) -> dict[str, dict[str, np.ndarray]]:
    """What a run left that is the same every time: by file, then by name."""
    found = {name: safetensors.numpy.load_file(run / name) for name in WEIGHTS}
    lines = (run / METRICS).read_text(encoding="utf-8").splitlines()
    found[METRICS] = {
        f"{number}.{key}": np.asarray(value if isinstance(value, float | int) else str(value))
        for number, line in enumerate(lines)
        for key, value in _flat(json.loads(line))
        if key not in TIMINGS
    }
    return found


def differences(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """What differs in one file; the first line is the whole of it in short."""
    before = {RENAMED.get(name, name): value for name, value in before.items()}
    found, largest = [], 0.0
    for name in sorted(before.keys() | after.keys()):
        if name not in after or name not in before:
            found.append(f"{name}: only {'before' if name in before else 'now'}")
            continue
        old, new = before[name], after[name]
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            found.append(f"{name}: {old.dtype} {old.shape} before, {new.dtype} {new.shape} now")
        elif old.tobytes() != new.tobytes():
            gap = float(np.abs(old.astype(np.float64) - new.astype(np.float64)).max())
            largest = max(largest, gap)
            found.append(f"{name}: largest difference {gap:.3g}")
    return [f"DIFFERENT, by up to {largest:.3g}", *found] if found else []


def main(arguments: list[str]) -> int:
    """Train, compare, print a table; the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    # Ended from outside, what was made is removed all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return _compared(arguments[0])
    except FailedError as error:
        print(f"same_weights: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("same_weights: stopped", file=sys.stderr)
        return 130


def _compared(base: str) -> int:
    same = True
    with tempfile.TemporaryDirectory(prefix="same-weights-") as made:
        folder = Path(made)
        with _worktree(base, folder / "base") as tree:
            make_data(folder)
            print(f"{'run':8} {'file':18} {base} and this tree")
            for name, training in TRAININGS.items():
                runs = [folder / f"{name}-before", folder / f"{name}-now"]
                for run, source in zip(runs, (tree, ROOT), strict=True):
                    _train(training, run, source, folder)
                before, now = map(contents, runs)
                for file, old in before.items():
                    told, *details = differences(old, now[file]) or ["same"]
                    print(f"{name:8} {file:18} {told}", *details, sep="\n    ", flush=True)
                    same = same and not details
    return 0 if same else 1


@contextmanager
def _worktree(base: str, place: Path) -> Iterator[Path]:
    commit = _git("rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")
    try:
        _git("worktree", "add", "--detach", "--quiet", str(place), commit)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        _git("worktree", "prune")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise FailedError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _train(training: Training, out: Path, tree: Path, folder: Path) -> None:
    """By the package in a tree, with one thread a process."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    python = [sys.executable]
    if training.processes > 1:
        python += ["-m", "torch.distributed.run", "--standalone"]
        python += ["--nproc-per-node", str(training.processes)]
    command = [*python, "-m", "arcset", *training.arguments(out)]
    find = "import importlib.util; print(importlib.util.find_spec('arcset').origin)"
    used = _output([sys.executable, "-c", find], environment, folder)
    if not Path(used).is_relative_to(tree / "src"):
        raise FailedError(f"{tree} was to be tried, but Python takes arcset from {used}")
    _output(command, environment, folder)


def _output(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """What a command wrote; it does not outlive this process."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=folder, **pipes) as process:
        try:
            written, complaint = process.communicate(timeout=SECONDS)
        except BaseException:
            process.terminate()  # torchrun ends the processes that it has started, too
            raise
    if process.returncode:
        raise FailedError(f"{' '.join(command)} ended with {process.returncode}: {complaint}")
    return written.strip()


def _flat(content: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
