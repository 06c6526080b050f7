"""Training on a few real digits: what is written, what is repeatable, what survives."""

import pytest
import torch

from arcset import RunError, TrainingError
from arcset.data import load_dataset, select, to_tensors
from arcset.runs import Run, RunConfig
from arcset.runs.assess import measure_run
from arcset.runs.model import embed
from arcset.training import load_model, resume, train
from support.small_data import Remembers, images
from training.alike import assert_alike, newest, tensors

LONG = pytest.mark.long

CONFIG = RunConfig(
    data="mnist-sample",
    classes="0-2",
    network="mlp",
    dim=2,
    epochs=3,
    batch=128,
    loss="arcface",
    snapshot=50,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return train(CONFIG, tmp_path_factory.mktemp("runs") / "finished", device="cpu")


def weights(run):
    return tensors(run.path)


def assert_equal_runs(a, b):
    """Weights, metrics and checkpoints, and the embeddings that were kept on the way."""
    assert_alike(a.path, b.path)
    for epoch in range(4):
        one, other = a.embeddings(epoch), b.embeddings(epoch)
        assert all(torch.equal(one[part], other[part]) for part in one)


def test_kept_embeddings_are_those_of_the_saved_weights(finished):
    network, _ = load_model(Run.open(finished.path))
    assert not network.training
    assert finished.config.scale is not None  # what was chosen is written down
    assert finished.epochs() == [0, 1, 2, 3]
    selection = select(load_dataset("mnist-sample"), "0-2")
    images, labels = to_tensors(selection.test)
    samples = finished.samples()
    again = embed(network, images[samples["test.index"]])
    torch.testing.assert_close(again, finished.embeddings(3)["test"])
    assert torch.equal(labels[samples["test.index"]], samples["test.labels"])


def test_equal_seeds_give_equal_runs_and_others_do_not(finished, tmp_path):
    torch.manual_seed(12345)  # the state outside neither matters nor changes
    before = torch.get_rng_state()
    assert_equal_runs(finished, train(CONFIG, tmp_path / "again", device="cpu"))
    assert torch.equal(before, torch.get_rng_state())
    other = train(CONFIG.replace(seed=1, epochs=1), tmp_path / "other", device="cpu")
    assert not torch.equal(other.embeddings(0)["test"], finished.embeddings(0)["test"])


def test_an_epoch_without_its_checkpoint_is_not_counted_twice(finished, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, tmp_path / "run", device="cpu", watcher=Remembers(13))
    run = Run.open(tmp_path / "run")
    run.write_metrics([*run.metrics(), {"epoch": 2, "loss": 0.0}])  # killed right after this line
    (run.path / "checkpoint" / ".step-000000020.part").mkdir()
    assert_equal_runs(finished, resume(run.path, device="cpu"))


def test_divergence_stops_with_a_diagnosis_and_keeps_what_was_good(tmp_path):
    config = CONFIG.replace(loss="softmax", learning_rate=1e30, schedule="constant")
    with pytest.raises(TrainingError, match=r"epoch 1\b.*1e\+30"):
        train(config, tmp_path / "run", device="cpu")
    assert Run.open(tmp_path / "run").metrics() == []


@pytest.mark.parametrize(
    ("loss", "snapshot"),
    [
        ("softmax", 50),
        ("triplet", 0),
    ],
)
def test_an_epoch_that_breaks_in_its_last_step_is_not_kept(tmp_path, loss, snapshot):
    config = CONFIG.replace(
        loss=loss, learning_rate=1e30, schedule="constant", batch=4096, snapshot=snapshot
    )
    with pytest.raises(TrainingError, match=r"layer \d+ \(\w+\)"):
        train(config, tmp_path / "run", device="cpu")
    run = Run.open(tmp_path / "run")
    assert run.metrics() == []
    with pytest.raises(RunError, match="weights"):
        run.load_model()


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("arcface", {"update": "sgd"}),
        ("curricularface", {"mode": "store"}),
        pytest.param(
            "arcface", {"update": "adagrad", "subcenters": 2, "mode": "recompute"}, marks=LONG
        ),
        pytest.param("classwise", {"mode": "store", "warmup": 5}, marks=LONG),
        pytest.param("adacos", {"label_smoothing": 0.1}, marks=LONG),
        pytest.param("adaface", {}, marks=LONG),
        pytest.param("elasticface", {"plus": True}, marks=LONG),
    ],
)
def test_the_family_trains_resumes_and_loads(tmp_path, loss, options):
    config = CONFIG.replace(loss=loss, options=options, dim=8, epochs=2)
    whole = train(config, tmp_path / "whole", device="cpu")
    assert whole.metrics()[-1]["test_accuracy"] > 0.8
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "cut", device="cpu", watcher=Remembers(12))
    cut = resume(tmp_path / "cut", device="cpu")
    first, second = weights(whole), weights(cut)
    assert all(torch.equal(first[name], second[name]) for name in first)
    _, loaded = load_model(Run.open(whole.path))
    kept = torch.from_numpy(whole.embeddings(2)["test"].numpy())
    assert loaded.logits(kept).shape == (len(kept), 3)


def test_class_sizes_reach_the_margin(tmp_path):
    run = train(CONFIG.replace(loss="classwise", dim=8, epochs=1), tmp_path / "run", device="cpu")
    margins = weights(run)["loss.margin.margins"]
    selection = select(load_dataset("mnist-sample"), "0-2")
    sizes = torch.bincount(to_tensors(selection.train)[1])
    assert margins.argmax() == sizes.argmin() or len(set(sizes.tolist())) == 1


@pytest.mark.parametrize(
    "loss",
    ["arcface", "center", *(pytest.param(loss, marks=LONG) for loss in ("softmax", "classwise"))],
)
def test_what_remains_of_a_loss_is_what_was_trained(tmp_path, loss):
    data = str(images(tmp_path / "a.npz", each=10, noise=60))
    config = RunConfig(data=data, loss=loss, new_classes="both", dim=8, epochs=2, batch=16)
    run = train(config, tmp_path / "run", device="cpu")
    trained = tensors(newest(run.path))
    network, kept = load_model(Run.open(run.path))
    for name, tensor in kept.state_dict().items():
        whole = trained[f"loss.{name}"]
        assert torch.equal(tensor, whole[: len(tensor)] if tensor.ndim else whole)
    line = run.metrics()[-1]  # of all test samples, as there are few
    assert measure_run(run)["accuracy"] == line["test_accuracy"]
    assert network.training is False


def test_the_margin_comes_in_over_a_share_of_the_steps(tmp_path):
    """With weights that stand still, a step costs what it costs with the margin of that moment."""
    config = RunConfig(
        data=str(images(tmp_path / "a.npz", classes=6)),
        dim=4,
        epochs=3,
        batch=12,
        scale=16.0,
        learning_rate=1e-12,
        snapshot=0,
    )

    loaded = {}

    def losses(name, **settings):
        watcher = Remembers()
        run = train(config.replace(**settings), tmp_path / name, device="cpu", watcher=watcher)
        loaded[name] = load_model(Run.open(run.path))[1]
        return [now.loss for now in watcher.steps]

    none, half, full = (
        losses(str(margin), margin=margin, margin_warm_up=0.0) for margin in (0.0, 0.2, 0.4)
    )
    assert len(full) == 12
    assert none[0] < half[0] < full[0]
    warmed = losses("warmed", margin=0.4, margin_warm_up=0.5)  # six steps
    assert (warmed[0], warmed[3], *warmed[6:]) == pytest.approx((none[0], half[3], *full[6:]))
    asked = losses("asked", margin=0.4, margin_warm_up=0.5, options={"warmup": 2})
    assert (asked[0], asked[1], *asked[2:]) == pytest.approx((none[0], half[1], *full[2:]))
    batch = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 6
    complete = loaded["0.4"](*batch).item()
    assert loaded["0.2"](*batch).item() < complete
    for name in ("warmed", "asked"):  # the margin is complete when a run is loaded
        assert loaded[name](*batch).item() == pytest.approx(complete)
