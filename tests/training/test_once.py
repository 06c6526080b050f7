"""What a training holds, reads and computes once: network, centers, images, weights, embeddings."""

import gc
from collections import Counter

import numpy as np
import pytest
import torch

import arcset
from arcset.data.embeddings import EmbeddingSet
from arcset.data.image import Reading
from arcset.runs import Run, RunConfig
from arcset.runs.model import TrainedRun, build_model
from arcset.training import train
from support.patterns import pictures
from support.small_data import Remembers, images

SETTINGS = {"dim": 7, "network": "glyph", "epochs": 2, "batch": 16, "snapshot": 10}


def shapes(parameters) -> Counter[tuple[int, ...]]:
    return Counter(tuple(parameter.shape) for parameter in parameters)


def alive() -> Counter[tuple[int, ...]]:
    """The shapes of all parameters in memory."""
    gc.collect()
    objects = (thing for thing in gc.get_objects() if type(thing) is torch.nn.Parameter)
    return shapes(parameter for parameter in objects if not parameter.is_meta)


class Weighs(Remembers):
    """Counts the parameters in memory in the middle of training, beside those of before."""

    def __init__(self) -> None:
        super().__init__()
        self.before = alive()

    def stepped(self, now) -> None:
        super().stepped(now)
        if now.step == 4:
            self.held = alive() - self.before


@pytest.mark.parametrize("settings", [{}, {"new_classes": "rotations"}, {"loss": "softmax"}])
def test_network_and_centers_are_in_memory_once(tmp_path, settings) -> None:
    config = RunConfig(data=str(images(tmp_path / "a.npz")), **{**SETTINGS, **settings})
    watcher = Weighs()
    run = train(config, tmp_path / "run", device="cpu", watcher=watcher)
    network, loss = build_model(run.config, training=True)
    assert watcher.held == shapes([*network.parameters(), *loss.parameters()])


def test_the_network_that_was_trained_is_the_one_that_is_measured(tmp_path) -> None:
    config = RunConfig(
        data=str(images(tmp_path / "a.npz")), **SETTINGS, ema=0.5, dtype="float64",
        hold_out={"validation": 0.2, "test": 0.2},
    )  # fmt: skip
    run = train(config, tmp_path / "run", device="cpu")
    other = TrainedRun.load(run.path, device="cpu")
    for part in ("train", "test", "unseen"):
        rows, expected = run.embed_part(part).embeddings, other.embed_part(part).embeddings
        assert rows.dtype == np.float32
        assert np.array_equal(rows, expected)
    assert torch.equal(run.loss.trained_centers(), other.loss.trained_centers())
    assert not run.network.training


def test_images_weights_and_embeddings_are_read_and_computed_once(tmp_path, monkeypatch) -> None:
    """From the folder to the report: `arcset.train` with all that it writes."""
    files = pictures(tmp_path / "people", [f"p{number:02d}" for number in range(24)], 8)
    counts: Counter[str] = Counter()

    def counting(owner, name: str, key) -> None:
        original = getattr(owner, name)

        def counted(*arguments, **options):
            counts[key(*arguments)] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    counting(Reading, "read", lambda *_: "images decoded")
    counting(Run, "load_model", lambda *_: "weights loaded")
    counting(TrainedRun, "embed_images", lambda run, part: f"{len(part)} images embedded")
    run = arcset.train(
        tmp_path / "people", out=tmp_path / "run", network="glyph", dim=8, epochs=1, device="cpu",
        hold_out={"validation": 0.2, "test": 0.2}, size=(16, 16), watcher=Remembers(),
    )  # fmt: skip
    assert run.report.exists()
    assert (run.path / "README.md").exists()
    assert counts["images decoded"] == len(files)
    assert counts["weights loaded"] == 1
    parts = [getattr(run.selection, name) for name in ("test", "unseen", "validation")]
    embedded = {name: count for name, count in counts.items() if "embedded" in name}
    assert sum(embedded.values()) == len(parts), embedded
    assert isinstance(run.embed_part("test"), EmbeddingSet)
    assert sum(count for name, count in counts.items() if "embedded" in name) == len(parts)
