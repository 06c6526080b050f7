"""From Python: every kind of data, any module, and what comes of it."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset
from torch.utils.data import Dataset as TorchDataset

import arcset
from arcset import DataError, InputError, OptionError
from arcset.cli import main
from arcset.data import open_source
from arcset.recognition.export import export
from arcset.runs import Run
from arcset.runs.config import GIVEN
from support.small_data import Remembers, images, vectors

CLASSES, EACH = 24, 5
FAST = {"epochs": 1, "batch": 32, "device": "cpu", "snapshot": 4}


class Pictures(Dataset):
    """A torch Dataset of (tensor, int), with the names of its classes as torchvision has them."""

    def __init__(self, path, draw=None):
        content = np.load(path)
        self.pixels, names = content["images"], content["labels"]
        self.classes = sorted(set(names.tolist()))
        self.labels = [self.classes.index(name) for name in names]
        self.draw = draw  # a generator, where every reading differs

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = torch.from_numpy(self.pixels[index] / 255).float()[None]
        if self.draw is not None:
            image = (image + 0.1 * torch.rand(1, generator=self.draw)).clamp(0, 1)
        return image, self.labels[index]


def module(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(100, 12), nn.BatchNorm1d(12))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Small images as arrays, a folder and a table."""
    place = tmp_path_factory.mktemp("data")
    content = np.load(images(place / "images.npz", classes=CLASSES, each=EACH))
    rows = ["path,label"]
    for number, (pixels, label) in enumerate(
        zip(content["images"], content["labels"], strict=True)
    ):
        file = place / "faces" / label / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
        rows.append(f"faces/{label}/{number}.png,{label}")
    (place / "faces.csv").write_text("\n".join(rows) + "\n")
    return place


@pytest.fixture(scope="module")
def whole(place, tmp_path_factory):
    """A run with all that belongs to it."""
    folder = tmp_path_factory.mktemp("runs") / "faces"
    return arcset.train(
        f"{place}/faces/", out=folder, loss="arcface", network="simple", dim=8, **FAST,
        hold_out={"validation": 0.2, "test": 0.2},
    )  # fmt: skip


def test_a_folder_becomes_a_run_with_all_that_belongs_to_it(whole, place):
    files = {"config.toml", "measures.json", "threshold.json", "README.md", "report.html"}
    assert files <= {file.name for file in whole.path.iterdir()}
    assert whole.config.data == str(place / "faces")
    assert whole.config.hold_out == {"validation": 0.2, "test": 0.2}
    assert 0 <= whole.measures["unseen_auc"] <= 1
    assert whole.assessment.verification.auc == whole.measures["unseen_auc"]
    assert whole.thresholds.origin.endswith("held-out identities")
    assert whole.assessment.cross_fitted
    assert whole.report == whole.path / "report.html"
    assert Run.open(whole.path).measures == whole.measures
    assert all(word in whole._repr_html_() for word in ("faces", "arcface", "1 of 1"))


@pytest.mark.parametrize("kind", ["folder", "table", "npz", "named", "source", "arrays", "vectors"])
def test_every_kind_of_data_is_trained_on(kind, place, tmp_path):
    content = np.load(place / "images.npz")
    data = {
        "folder": place / "faces",
        "table": place / "faces.csv",
        "npz": str(place / "images.npz"),
        "named": "mnist-sample",
        "source": open_source(place / "faces"),
        "arrays": (content["images"], content["labels"]),
        "vectors": vectors(tmp_path / "vectors.npz", classes=CLASSES),
    }[kind]
    heard = Remembers()
    run = arcset.train(
        data, out=tmp_path / "run", network="mlp", dim=4, report=False, watcher=heard, **FAST
    )
    assert run.config.data == (GIVEN if kind in ("source", "arrays") else str(data))
    assert len(run.config.class_names) == (10 if kind == "named" else CLASSES - 10)
    assert (run.config.hold_out is None) == (kind == "named")  # own data gets what suits it
    assert "held out" in " ".join(heard.notes)
    assert run.measures["accuracy"] is not None
    assert run.report is None


#: With these, two epochs are the same as one and then another.
STEADY = {"schedule": "constant", "margin_warm_up": 0.0}


@pytest.fixture(scope="module")
def given(place, tmp_path_factory):
    """A run of a torch Dataset and a module: one epoch of two, and the dataset."""
    dataset, folder = Pictures(place / "images.npz"), tmp_path_factory.mktemp("given") / "mine"
    run = arcset.train(dataset, network=module(), out=folder, report=False, **STEADY, **FAST)
    return run, dataset


def test_a_module_on_a_torch_dataset_goes_on_to_the_same_bits(given, tmp_path):
    first, dataset = given
    assert (first.config.data, first.config.network, first.config.dim) == (GIVEN, GIVEN, 12)
    assert 'data = "given in Python"' in (first.path / "config.toml").read_text()
    heard = Remembers()
    run = arcset.train(
        resume=first.path, data=dataset, network=module(seed=1), epochs=2, device="cpu",
        report=False, watcher=heard,
    )  # fmt: skip
    assert "another image" not in " ".join(heard.notes)
    straight = arcset.train(
        dataset, network=module(), out=tmp_path / "straight", report=False, **STEADY,
        watcher=heard, **{**FAST, "epochs": 2},
    )  # fmt: skip
    assert len(run.metrics()) == len(straight.metrics()) == 2
    for ours, theirs in ((run.network, straight.network), (run.loss, straight.loss)):
        for name, weight in theirs.state_dict().items():
            assert torch.equal(ours.state_dict()[name], weight), name


def test_a_dataset_that_draws_is_said_not_to_go_on_to_the_same_bits(place, tmp_path):
    drawing = Pictures(place / "images.npz", torch.Generator())
    heard = Remembers()
    arcset.train(
        drawing, network="mlp", dim=4, out=tmp_path / "run", report=False, watcher=heard, **FAST
    )
    assert "last bit" in " ".join(heard.notes)


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["train", "--resume", "RUN"], "data="),
        (["embed", "RUN", "--out", "a.npz"], "data="),
        (["embed", "RUN", "faces", "--out", "a.npz"], "network="),
        (["export", "RUN", "--out", "a.onnx"], "network="),
        (["verify", "RUN", "a.png", "a.png"], "network="),
        (["enroll", "people.db", "faces", "--model", "RUN"], "network="),
        (["evaluate", "RUN"], "network="),
    ],
)
def test_the_shell_says_which_argument_to_pass(given, place, words, argument, capsys, monkeypatch):
    monkeypatch.chdir(place)
    with pytest.raises(SystemExit) as stopped:
        main([str(given[0].path) if word == "RUN" else word for word in words])
    line = capsys.readouterr().err.splitlines()[-1]
    assert stopped.value.code == 2
    assert argument in line
    assert "given in Python" in line


def test_a_run_in_memory_is_evaluated_exported_and_recognizes(given, place, tmp_path, monkeypatch):
    run, dataset = given
    for reader in ("load_model", "selection_of"):
        monkeypatch.setattr(f"arcset.runs.model.{reader}", None)  # nothing is read again
    assessment = arcset.evaluate(run, report=False, intervals=False)
    assert assessment.verification.auc == run.assessment.verification.auc
    assert (run.path / "evaluation" / "evaluation.json").exists()
    recognizer = arcset.Recognizer.load(run)
    assert recognizer.model.network is run.network
    with arcset.Gallery.open(tmp_path / "people.db", recognizer) as gallery:
        gallery.enroll("anna", [dataset.pixels[0], dataset.pixels[1]])
        assert gallery.identify(dataset.pixels[2], threshold=0.0).subject == "anna"
    assert export(run, tmp_path / "mine.onnx").flips == 0


def test_what_was_given_is_given_again(given, tmp_path):
    run, dataset = given
    with pytest.raises(OptionError, match="network="):
        arcset.evaluate(run.path, dataset)
    options = {"network": module(seed=2), "device": "cpu", "report": False, "out": tmp_path}
    again = arcset.evaluate(run.path, dataset, **options)
    assert again.identities == run.assessment.identities  # its own: those held out
    loaded = arcset.Recognizer.load(run.path, network=module(seed=3), device="cpu")
    assert loaded.digest == arcset.Recognizer.load(run).digest
    strangers = (np.random.default_rng(1).integers(0, 256, (20, 10, 10), np.uint8), [*"abcde"] * 4)
    assert arcset.evaluate(run, strangers, **options | {"network": None}).identities == 5


def test_a_run_is_evaluated_by_its_folder_and_on_other_data(whole, place):
    judged = arcset.evaluate(str(whole.path), device="cpu", report=False, intervals=False)
    assert judged.verification.auc == whole.assessment.verification.auc
    with pytest.raises(DataError, match="14 of 24"):
        arcset.evaluate(whole, place / "faces", part="all", report=False)


class ListDataset(TorchDataset):
    """Samples of whatever form."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, row):
        return self.samples[row]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"epocs": 3}, OptionError, "'epocs'.*'epochs'"),
        ({"loss": "arcfase"}, OptionError, "'arcfase'.*'arcface'"),
        ({"network": "simpel"}, OptionError, "'simpel'.*'simple'"),
        ({"data": 3}, InputError, "int"),
        ({"data": ListDataset([])}, InputError, "no samples"),
        ({"data": ListDataset([{"image": torch.rand(1, 8, 8)}] * 9)}, InputError, "dict"),
        ({"data": "nowhere/"}, OptionError, "nowhere"),
        ({"data": "mnist-sample", "size": 20}, OptionError, "size"),
        ({"network": nn.Flatten(), "dim": 7}, OptionError, "dim=7.*100"),
        ({"network": nn.Linear(3, 3)}, InputError, "does not take images of 10×10"),
        ({"network": nn.Identity()}, InputError, r"\(2, 1, 10, 10\)"),
        ({"out": None}, OptionError, "out"),
    ],
)
def test_mistakes_are_found_before_anything_is_written(place, tmp_path, arguments, error, words):
    values = {"data": place / "images.npz", "out": tmp_path / "run", "device": "cpu"} | arguments
    with pytest.raises(error, match=words):
        arcset.train(**values)
    assert not (tmp_path / "run").exists()


def test_a_continued_run_keeps_its_settings(whole, place):
    with pytest.raises(OptionError, match="leave out out"):
        arcset.train(resume=whole, out="elsewhere")
    with pytest.raises(OptionError, match=r"seed.*epochs"):
        arcset.train(resume=whole, seed=5)
    with pytest.raises(OptionError, match="leave data out"):
        arcset.train(resume=whole, data=place / "faces")


def test_the_package_is_imported_without_torch():
    code = "import sys, arcset; assert 'torch' not in sys.modules; arcset.train; arcset.evaluate"
    assert subprocess.run([sys.executable, "-c", code], check=True).returncode == 0


def test_losses_are_compared(place, tmp_path):
    heard = Remembers()
    comparison = arcset.compare(
        (np.load(place / "images.npz")["images"], np.load(place / "images.npz")["labels"]),
        losses=["softmax", "arcface"], seeds=1, out=tmp_path, network="mlp", dim=4, report=False,
        watcher=heard, **FAST,
    )  # fmt: skip
    assert set(comparison.summary) == {"softmax", "arcface"}
    assert (tmp_path / "comparison.json").exists()
    assert "arcface" in comparison._repr_html_()
    with pytest.raises(OptionError, match=r"'epocs'.*'epochs'"):
        arcset.compare("mnist-sample", epocs=3, out=tmp_path)
