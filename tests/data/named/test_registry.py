"""Laws for every named dataset, and what is said about names that are none."""

from pathlib import Path

import pytest
from PIL import Image

from arcset.data import (
    DATASETS,
    DatasetEntry,
    dataset_entry,
    dataset_names,
    download_dataset,
    load_dataset,
    locate,
)
from arcset.errors import OptionError
from support.datasets import loaded

LONG = pytest.mark.long  # its 20,000 drawings take seconds
NAMES = ["lfw-sample", "mnist", "mnist-sample", "omniglot", "orl"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG) if name == "omniglot" else name for name in NAMES]
)
def test_entries_tell_the_truth(name: str) -> None:
    entry = dataset_entry(name)
    assert (entry.name, entry.locate()) == (name, locate(name))
    assert entry.title
    if locate(name).startswith("not here"):
        pytest.skip(f"{name} is {locate(name)}; set ARCSET_DATA to a folder that holds {name}/")
    dataset = loaded(name)
    assert (dataset.name, dataset.licence) == (name, entry.licence)
    if "evaluation set" in locate(name):
        pytest.skip("the optional part of omniglot is here; the entry counts the usual one")
    counts = (len(dataset.class_names), len(dataset.train), len(dataset.test))
    assert counts == (entry.classes, entry.train, entry.test)
    if name != "omniglot":  # its optional part would be fetched
        assert download_dataset(name) == locate(name)  # it is here, so nothing is left to do


@pytest.mark.parametrize("ask", [load_dataset, locate, download_dataset, dataset_entry])
def test_unknown_names_are_met_with_the_known_ones(ask: object) -> None:
    assert callable(ask)
    for name in ("faces", "lfw", ""):
        with pytest.raises(OptionError, match=f"'{name}'.*mnist-sample"):
            ask(name)
    with pytest.raises(OptionError, match="'mnist-sample'"):
        ask("mnist_sample")


def test_paths_that_do_not_exist() -> None:
    for name in ("faces.csv", "some/folder", "arrays.npz", "./mnist", "train.rec", "/no/such"):
        with pytest.raises(OptionError, match=f"'{name}'.*lfw-sample, "):
            load_dataset(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with pictures of two people in faces/ and, too, in mnist-sample/."""
    for name in ("faces", "mnist-sample"):
        for person, shade in (("anna", 10), ("ben", 200)):
            (tmp_path / name / person).mkdir(parents=True)
            Image.new("L", (6, 4), shade).save(tmp_path / name / person / "1.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_goes_before_a_folder_that_shares_it(folder: Path) -> None:
    assert len(load_dataset("mnist-sample").train) == 4000
    for name in ("./mnist-sample", Path("mnist-sample"), str(folder / "mnist-sample")):
        assert len(load_dataset(name).train) == 2


def test_a_new_dataset_is_one_entry() -> None:
    sample = dataset_entry("mnist-sample")
    entry = DatasetEntry("mine", "t", "l", 10, 4000, 1000, lambda: "here", sample.load, str)
    DATASETS.add("mine", entry)
    try:
        assert dataset_names() == sorted([*NAMES, "mine"])
        assert locate("mine") == "here"
    finally:
        DATASETS.remove("mine")
