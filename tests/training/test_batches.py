"""What each step is fed."""

import numpy as np
import pytest
import torch
from torch import Tensor

from arcset.data import ImageSet, as_float
from arcset.errors import OptionError
from arcset.runs import Run, RunConfig
from arcset.runs.assess import measure_run
from arcset.training import load_model, train
from arcset.training.batches import TrainingBatches
from support.small_data import vectors

CPU = torch.device("cpu")
CLASSES = 3


def pictures(height: int = 4, width: int = 4) -> ImageSet:
    """Seven, four and two of three classes; no two pixels of a picture are alike."""
    labels = np.repeat(np.arange(CLASSES), (7, 4, 2))
    random = np.random.default_rng(0)
    pixels = np.stack([random.permutation(height * width) for _ in labels])
    return ImageSet(pixels.reshape(-1, height, width).astype(np.uint8), labels, ("a", "b", "c"))


def feed(data: ImageSet | None = None, **settings: object) -> TrainingBatches:
    config = RunConfig(data="x", dim=4, **{"batch": 4, "epochs": 3, **settings})
    return TrainingBatches(config, pictures() if data is None else data, CPU)


def fed(one: TrainingBatches, epoch: int, first_step: int) -> list[tuple[Tensor, Tensor]]:
    found = []
    for step, index in enumerate(one.epoch(epoch), start=first_step):
        found.append(one.batch(index, torch.Generator().manual_seed(one.step_seed(step))))
    return found


SETTINGS = [
    {},
    {"augment": ["affine:rotate=20", "noise"], "new_classes": "both"},
    {"per_class": 2, "batch": 6, "new_classes": "rotations"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_batches_depend_on_seed_epoch_and_step_alone(settings) -> None:
    one, again, other = feed(**settings), feed(**settings), feed(seed=1, **settings)
    before = fed(one, 1, 0)
    torch.manual_seed(7)  # nothing outside matters
    first, second = fed(one, 2, one.per_epoch), fed(again, 2, again.per_epoch)
    for (ours, labels), (theirs, their_labels) in zip(first, second, strict=True):
        assert torch.equal(ours, theirs)
        assert torch.equal(labels, their_labels)
    assert not all(map(torch.equal, *([pair[0] for pair in part] for part in (first, before))))
    third = fed(other, 2, other.per_epoch)
    assert not all(map(torch.equal, *([pair[0] for pair in part] for part in (first, third))))


def test_an_epoch_shows_every_sample_once_as_floats() -> None:
    one = feed()
    assert one.per_epoch == 3  # of 4, 4 and 5: a last one would be alone
    assert one.steps == 9
    batches = fed(one, 1, 0)
    assert [len(labels) for _, labels in batches] == [4, 4, 5]
    assert {samples.dtype for samples, _ in batches} == {torch.float32}
    every = torch.cat(list(one.epoch(1)))
    assert sorted(every.tolist()) == list(range(13))
    labels = torch.cat([labels for _, labels in batches])
    data = pictures()
    assert torch.equal(labels, torch.from_numpy(data.labels)[every])
    named = ImageSet(data.images, data.labels, ("a", "b", "c", "d"))  # of d there is none
    assert feed(named).class_sizes().tolist() == [7, 4, 2, 0]


@pytest.mark.parametrize(("name", "count"), [("rotations", 4), ("reflections", 2), ("both", 8)])
def test_turned_pictures_are_classes_of_their_own(name: str, count: int) -> None:
    data = pictures()
    one = feed(data, new_classes=name, epochs=40)
    originals = torch.from_numpy(np.array(data.images))[:, None]  # (N, 1, 4, 4)
    seen = set()
    step = 0
    for epoch in range(1, 41):
        for index in one.epoch(epoch):
            batch, labels = one.batch(index, torch.Generator().manual_seed(one.step_seed(step)))
            step += 1
            which = labels // CLASSES
            assert torch.equal(labels % CLASSES, torch.from_numpy(data.labels)[index])
            for picture, place, turned in zip(batch, index, which.tolist(), strict=True):
                plain = originals[place]
                mirrored, turns = {
                    "rotations": (False, turned),
                    "reflections": (turned == 1, 0),
                    "both": (turned >= 4, turned % 4),
                }[name]
                plain = plain.flip(-1) if mirrored else plain
                assert torch.equal(picture, as_float(torch.rot90(plain, turns, (-2, -1))))
            seen |= set(labels.tolist())
    assert seen == set(range(CLASSES * count))
    assert one.class_sizes().tolist() == [7, 4, 2] * count


@pytest.mark.parametrize("new_classes", ["none", "rotations"])
def test_batches_of_several_images_per_class(new_classes: str) -> None:
    one = feed(per_class=3, batch=6, new_classes=new_classes)
    assert one.per_epoch == 3
    for epoch in (1, 2):
        for _, labels in fed(one, epoch, 0):
            found, counts = labels.unique(return_counts=True)
            assert len(found) == 2
            assert counts.tolist() == [3, 3]  # turned alike, or they would be several classes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 5, "per_class": 2}, "batch=5.*per_class=2"),
        ({"batch": 8, "per_class": 2}, "batch=8.*per_class=2.* 4 .* 3.* 6"),
        ({"augment": ["affin"]}, "'affin'.*'affine'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        feed(**settings)


def test_vectors_are_trained_on(tmp_path) -> None:
    config = RunConfig(
        data=str(vectors(tmp_path / "v.npz")),
        network="mlp",
        dim=8,
        epochs=5,
        batch=16,
        hold_out={"validation": 0.2, "test": 0.2},
    )
    run = train(config, tmp_path / "run", device="cpu")
    assert run.config.shape == (6,)
    assert run.metrics()[-1]["test_accuracy"] > 0.5
    assert run.metrics()[-1]["validation"]["auc"] > 0.8
    network, _ = load_model(Run.open(run.path))
    assert network(torch.zeros(2, 6)).shape == (2, 8)
    assert measure_run(run)["unseen_auc"] > 0.8
    for settings, message in (
        ({"augment": ["affine"]}, "augment 'affine'.*vectors"),
        ({"new_classes": "rotations"}, "new_classes='rotations'"),
    ):
        with pytest.raises(OptionError, match=message):
            train(config.replace(**settings), tmp_path / "other", device="cpu")
        assert not (tmp_path / "other").exists()
