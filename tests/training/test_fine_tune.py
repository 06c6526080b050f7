"""Beginning from another run: weights, centers, settings, and what is refused."""

import json
import shutil

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn

from arcset import OptionError, RunError
from arcset.data import load_dataset, select
from arcset.distributed import ProcessGroup
from arcset.losses import build_loss
from arcset.runs import Run, RunConfig
from arcset.runs.data import selection_of
from arcset.runs.model import embed, load_model
from arcset.training import resume, train
from arcset.training.batches import TrainingBatches
from arcset.training.fine_tune import begin_centers, freeze, measure_forgetting
from arcset.training.trainer import Trainer, build_to_train
from arcset.training.watchers import Silent
from support.small_data import Remembers, images
from training.alike import tensors

CPU = torch.device("cpu")
OLD = [f"c{number:02d}" for number in range(8)]
SETTINGS = {
    "dim": 4,
    "network": "glyph",
    "epochs": 2,
    "batch": 16,
    "snapshot": 8,
    "learning_rate": 0.05,
    "margin_warm_up": 0.0,
    "scale": 8.0,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    return str(images(tmp_path_factory.mktemp("data") / "a.npz", classes=12, each=10))


@pytest.fixture(scope="module")
def old(data, tmp_path_factory) -> Run:
    """A run that knows the first 8 of 12 identities."""
    config = RunConfig(data=data, classes=",".join(OLD), loss="adaface", **SETTINGS)
    return train(config, tmp_path_factory.mktemp("old") / "run", device="cpu")


def growing(old: Run, **changes: object) -> RunConfig:
    return RunConfig(**{**SETTINGS, "loss": old.config.loss, "data": old.config.data,
                        "start": str(old.path), **changes})  # fmt: skip


def beginning(config: RunConfig, place) -> tuple[Run, Trainer]:
    """A run as it stands before its first step."""
    with pytest.raises(KeyboardInterrupt):
        train(config, place, device="cpu", watcher=Remembers(1))
    run = Run.open(place)
    shutil.rmtree(place / "checkpoint", ignore_errors=True)
    selection = selection_of(run)
    batches = TrainingBatches(run.config, selection.train, CPU)
    network, loss = build_to_train(run.config, batches, ProcessGroup())
    return run, Trainer(run, selection, batches, network, loss, Silent())


def mean_directions(network, run: Run, names: list[str]) -> Tensor:
    """Of the unit embeddings of all training images, one class at a time."""
    part = selection_of(run).train
    rows = []
    for name in names:
        chosen = part.images[part.labels == part.class_names.index(name)]
        found = embed(network, torch.from_numpy(chosen.copy())[:, None]).double()
        rows.append((found / found.norm(dim=1, keepdim=True)).mean(dim=0))
    return torch.nn.functional.normalize(torch.stack(rows), dim=1)


def test_growing_keeps_the_old_centers_and_begins_the_new_at_their_means(old, tmp_path) -> None:
    run, trainer = beginning(growing(old), tmp_path / "new")
    network, loss = load_model(old)
    for name, tensor in network.state_dict().items():
        assert torch.equal(trainer.network.state_dict()[name], tensor), name
    centers, before = trainer.loss.trained_centers(), loss.trained_centers()
    assert run.config.class_names == tuple(f"c{number:02d}" for number in range(12))
    assert torch.equal(centers[:8], before)
    new = mean_directions(network, run, ["c08", "c09", "c10", "c11"]) * before.norm(dim=1).median()
    torch.testing.assert_close(centers[8:].double(), new, rtol=1e-5, atol=1e-6)
    state, theirs = trainer.loss.state_dict(), loss.state_dict()
    assert torch.equal(state["margin.norm_mean"], theirs["margin.norm_mean"])
    assert theirs["margin.norm_mean"] != 20.0  # it has counted
    assert int(state["step"]) == 0 < int(theirs["step"])


def test_a_given_selection_holds_out_nobody_that_the_old_run_knew(old, tmp_path) -> None:
    config = growing(old, classes=",".join(OLD[4:]))
    selection = select(load_dataset(config.data), config.classes)
    with pytest.raises(OptionError, match="'c00'"):
        train(config, tmp_path / "new", device="cpu", selection=selection)
    assert not (tmp_path / "new").exists()


def test_merged_identities_begin_between_their_old_centers(old, tmp_path) -> None:
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps({"c01": "c00", "c02": "both", "c03": "both", "c04": None}))
    run, trainer = beginning(growing(old, mapping=str(mapping)), tmp_path / "new")
    names = run.config.class_names
    assert names == ("c00", "both", *(f"c{number:02d}" for number in range(5, 12)))
    before = load_model(old)[1].trained_centers().double()
    centers, unit = trainer.loss.trained_centers().double(), torch.nn.functional.normalize(before)
    for place, pair in ((0, (0, 1)), (1, (2, 3))):
        middle = torch.nn.functional.normalize(unit[list(pair)].mean(dim=0), dim=0)
        torch.testing.assert_close(centers[place], middle * before.norm(dim=1).median(),
                                   rtol=1e-5, atol=1e-6)  # fmt: skip
    assert torch.equal(centers[2:5], before[5:8])
    mapping.unlink()  # the run has its own copy
    assert selection_of(run).train.class_names == names


def test_turned_classes_begin_at_the_means_of_turned_images(old, tmp_path) -> None:
    run, trainer = beginning(growing(old, new_classes="reflections"), tmp_path / "new")
    network, loss = load_model(old)
    centers = trainer.loss.trained_centers()
    assert len(centers) == 24
    assert torch.equal(centers[:8], loss.trained_centers())
    part = selection_of(run).train
    mirrored = torch.from_numpy(part.images[part.labels == 3][:, :, ::-1].copy())[:, None]
    mean = torch.nn.functional.normalize(embed(network, mirrored).double()).mean(dim=0)
    assert torch.cosine_similarity(centers[12 + 3].double(), mean, dim=0) > 1 - 1e-6


def test_a_cut_run_comes_out_the_same_and_no_longer_needs_the_old(old, tmp_path) -> None:
    earlier = tmp_path / "earlier"
    shutil.copytree(old.path, earlier)
    config = growing(old, start=str(earlier), freeze=2, ema=0.9, checkpoint_steps=3)
    whole = train(config, tmp_path / "whole", device="cpu")
    for cut in (1, 5):  # before the first checkpoint, and after it
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / f"cut{cut}", device="cpu", watcher=Remembers(cut))
    again = resume(tmp_path / "cut1", device="cpu")
    shutil.rmtree(earlier)
    later = resume(tmp_path / "cut5", device="cpu")
    for run in (again, later):
        ours, theirs = tensors(run.path), tensors(whole.path)
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert load_model(Run.open(later.path))[0] is not None
    with pytest.raises(RunError, match=str(earlier)):
        train(config, tmp_path / "late", device="cpu")


def test_a_run_with_a_checkpoint_goes_on_where_the_old_was_moved(old, tmp_path) -> None:
    """By the same call: whom it holds out is drawn with what the old run knew, and written down."""
    earlier = tmp_path / "earlier"
    shutil.copytree(old.path, earlier)
    settings = {"start": str(earlier), "hold_out": {"test": 0.2}, "checkpoint_steps": 3}
    config = growing(old, **settings)
    for cut in (2, 5):  # before the first checkpoint, and after it
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / f"cut{cut}", device="cpu", watcher=Remembers(cut))
    earlier.rename(tmp_path / "moved")
    run = train(config, tmp_path / "cut5", device="cpu", again=True)
    assert set(old.config.class_names) <= set(run.config.class_names)
    assert len(run.metrics()) == 2
    with pytest.raises(RunError, match=str(earlier)):
        train(config, tmp_path / "cut2", device="cpu", again=True)
    other = config.replace(start=str(tmp_path / "moved"))
    with pytest.raises(RunError, match=r"start .*earlier.*moved"):
        train(other, tmp_path / "cut5", device="cpu", again=True)


@pytest.mark.parametrize("loss", ["softmax", "center", "triplet"])
def test_another_kind_of_loss_begins_at_means(old, tmp_path, loss: str) -> None:
    config = growing(old, loss=loss, scale=None, batch=24, per_class=4)
    run, trainer = beginning(config, tmp_path / "new")
    if loss == "triplet":
        assert trainer.loss.centers is None
        return
    network, _ = load_model(old)
    part = selection_of(run).train
    means = torch.stack([
        embed(network, torch.from_numpy(part.images[part.labels == label].copy())[:, None])
        .double().mean(dim=0) for label in range(12)
    ])  # fmt: skip
    centers = trainer.loss.trained_centers().double()
    cosines = torch.cosine_similarity(centers, means)
    assert cosines.min() > 1 - 1e-6
    lengths = centers.norm(dim=1)
    torch.testing.assert_close(lengths, lengths[:1].expand(12), rtol=1e-5, atol=0)
    assert not trainer.loss.biases.any()
    if loss == "center":
        torch.testing.assert_close(trainer.loss.means.double(), means, rtol=1e-5, atol=1e-5)


def trained(name: str, classes: int, **options: object):
    torch.manual_seed(classes)
    loss = build_loss(name, 4, classes, **options)
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 3)
    return loss


@pytest.fixture(scope="module")
def fed(old):
    """The old run's network, and what feeds it: 8 classes."""
    return load_model(old)[0], TrainingBatches(old.config, selection_of(old).train, CPU)


def test_biases_come_along_and_those_of_the_new_are_nothing(fed) -> None:
    before, loss = trained("softmax", 6), trained("softmax", 8)
    begin_centers(loss, before, [[0], [5, 4], [3], [], [], [2], [1], []], *fed, is_same_loss=True)
    kept, rows = [0, 2, 5, 6], [0, 3, 2, 1]
    assert torch.equal(loss.weight[kept], before.weight[rows])
    assert torch.equal(loss.bias[kept], before.bias[rows])
    assert loss.bias[1].item() == pytest.approx(before.bias[4:6].mean().item())
    assert not loss.bias[[3, 4, 7]].any()


def test_sub_centers_part_but_lie_near(fed) -> None:
    before, loss = (trained("arcface", count, subcenters=3) for count in (6, 8))
    before.head.usage[:, 2] = 5
    sources = [[0], [1], [2], [3, 4], [], [5], [], []]
    begin_centers(loss, before, sources, *fed, is_same_loss=True)
    mine, theirs = loss.head.weight.view(8, 3, 4), before.head.weight.view(6, 3, 4)
    assert torch.equal(mine[[0, 1, 2, 5]], theirs[[0, 1, 2, 5]])
    assert loss.head.usage[0].tolist() == [0, 0, 5]
    for new in (3, 4, 6, 7):
        apart = torch.cosine_similarity(mine[new, [0, 0, 1]], mine[new, [1, 2, 2]])
        assert (apart > 0.95).all()
        assert (apart < 1 - 1e-4).all()
    single = trained("arcface", 8)
    begin_centers(single, before, sources, *fed, is_same_loss=False)
    dominant = torch.nn.functional.normalize(theirs[0, 2], dim=0)
    assert torch.cosine_similarity(single.head.weight[0], dominant, dim=0) > 1 - 1e-6


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"network": "mlp"}, "network glyph.*mlp"),
        ({"freeze": 10}, "freeze=10.* 10 layers"),
        ({"start": None, "freeze": 1}, "freeze=1"),
        ({"size": (12, 12)}, "10×10.*data.*12×12"),
        ({"classes": "c00,c09"}, "7 .*to hold out"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(old, tmp_path, changes, said):
    with pytest.raises(OptionError, match=said):
        train(growing(old, **changes), tmp_path / "new", device="cpu")
    assert not (tmp_path / "new").exists()


def test_a_run_does_not_begin_from_itself(old) -> None:
    with pytest.raises(OptionError, match=str(old.path)):
        train(growing(old), old.path, device="cpu", force=True)
    assert (old.path / "model.safetensors").exists()


def nearest(run: Run, part, names: tuple[str, ...]) -> float:
    """Share of the images of `names` whose nearest other one of them is of their identity."""
    chosen = np.isin(np.array(part.class_names)[part.labels], names)
    pixels, labels = torch.from_numpy(part.images[chosen])[:, None], part.labels[chosen]
    rows = torch.nn.functional.normalize(embed(load_model(run)[0], pixels).double())
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(rows)
    beside = search.kneighbors(return_distance=False, n_neighbors=1)[:, 0]
    return float((labels[beside] == labels).mean())


def test_what_was_forgotten_is_what_a_search_by_others_finds(tmp_path) -> None:
    data = str(images(tmp_path / "a.npz", classes=20, each=20, noise=90))
    names = tuple(f"c{number:02d}" for number in range(20))
    few = RunConfig(**{**SETTINGS, "data": data, "classes": ",".join(names[:14]), "epochs": 3})
    old = train(few, tmp_path / "old", device="cpu")
    more = few.replace(classes=",".join(names[:18]), start=str(old.path), learning_rate=1.0)
    run = train(more, tmp_path / "new", device="cpu")
    rows = measure_forgetting(run)
    test = selection_of(run).test
    assert [(row.group, row.identities) for row in rows] == [("old", 14), ("new", 4)]
    for row, group in zip(rows, (names[:14], names[14:18]), strict=True):
        assert row.before == pytest.approx(nearest(old, test, group))
        assert row.after == pytest.approx(nearest(run, test, group))
        assert row.change.gain == pytest.approx(row.after - row.before)
        assert f"{100 * row.before:.2f} %" in row.row()[3]
    assert any(row.before != row.after for row in rows)
    nobody_new = train(few.replace(start=str(old.path)), tmp_path / "same", device="cpu")
    assert [row.group for row in measure_forgetting(nobody_new)] == ["old"]
    nothing_kept = train(few.replace(start=str(old.path), train_on="all"), tmp_path / "all")
    assert measure_forgetting(nothing_kept) == []
    with pytest.raises(OptionError, match=str(old.path)):
        measure_forgetting(old)


# Frozen layers


@pytest.mark.parametrize(
    ("count", "averaged"),
    [
        (0, 0.0),
        (2, 0.9),
        (9, 0.0),
        *(
            pytest.param(count, averaged, marks=pytest.mark.long)
            for count, averaged in ((0, 0.9), (1, 0.0), (1, 0.9), (2, 0.0), (5, 0.0), (5, 0.9))
        ),
    ],
)
def test_exactly_the_frozen_tensors_stay(old, tmp_path, count: int, averaged: float) -> None:
    config = old.config.replace(
        start=str(old.path), freeze=count, ema=averaged, weight_decay=0.01, clip=1.0
    )
    new = train(config, tmp_path / "new", device="cpu")
    network, _ = load_model(old)
    layers = [number for number, layer in enumerate(network) if list(layer.parameters())]
    frozen = {f"model.{number}." for number in layers[:count]}
    before, after = (
        {name: value for name, value in tensors(run.path).items() if name.startswith("model.")}
        for run in (old, new)
    )
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same == {name for name in before if any(name.startswith(layer) for layer in frozen)}


def test_what_lies_between_is_frozen_as_well() -> None:
    network = nn.Sequential(
        nn.Linear(3, 3),
        nn.BatchNorm1d(3, affine=False),
        nn.Linear(3, 3),
        nn.Dropout(),
        nn.Linear(3, 2),
    )
    frozen = freeze(network, 2)
    network.train()
    assert network[1].training
    for layer in frozen:
        layer.eval()
    assert [layer.training for layer in network] == [False, False, False, True, True]
    assert freeze(network, 0) == []
