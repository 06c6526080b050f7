"""Small data that can be learned in a second, and a watcher that remembers."""

from pathlib import Path

import numpy as np

from arcset.runs import RunConfig
from arcset.training import train
from arcset.training.watchers import Watcher


def images(
    place: Path,
    *,
    classes: int = 12,
    each: int = 8,
    size: int = 10,
    noise: float = 25.0,
) -> Path:
    """An npz file of grey images: every class has a pattern of its own, with some noise on it."""
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, (classes, size, size))
    labels = np.repeat(np.arange(classes), each)
    changes = random.normal(0, noise, (len(labels), size, size))
    pixels = np.clip(patterns[labels] + changes, 0, 255).astype(np.uint8)
    np.savez(place, images=pixels, labels=[f"c{label:02d}" for label in labels])
    return place


def vectors(place: Path, *, classes: int = 12, each: int = 8, dim: int = 6) -> Path:
    """An npz file of features: every class has a mean of its own."""
    random = np.random.default_rng(0)
    means = random.normal(0, 3, (classes, dim))
    labels = np.repeat(np.arange(classes), each)
    features = means[labels] + random.normal(0, 1, (len(labels), dim))
    np.savez(place, features=features.astype(np.float32), labels=labels)
    return place


def train_again(config: RunConfig, place: Path) -> None:
    """Say that training begins; then begin it, or go on with it."""
    print("ready", flush=True)
    train(config, place, device="cpu", again=True)


class Remembers(Watcher):
    """A watcher that keeps what it was told, and presses Ctrl-C after `stop` steps."""

    def __init__(self, stop=None):
        self.stop, self.steps, self.lines, self.warnings = stop, [], [], []
        self.notes = []

    def started(self, name, done, steps):
        self.total = steps

    def stepped(self, now):
        self.steps.append(now)
        if now.step == self.stop:
            raise KeyboardInterrupt

    def epoch_ended(self, metrics):
        self.lines.append(metrics)

    def warned(self, text):
        self.warnings.append(text)

    def noted(self, text):
        self.notes.append(text)
