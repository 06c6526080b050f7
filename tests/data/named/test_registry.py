"""Laws for every named dataset, and what is said about names that are none."""

import dataclasses
from pathlib import Path

import pytest
from PIL import Image

from arcset.data import (
    DATASETS,
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
@pytest.mark.parametrize("name", ["mnist_sample", ""])
def test_unknown_names_are_met_with_the_known_ones(ask: object, name: str) -> None:
    assert callable(ask)
    with pytest.raises(OptionError, match=f"'{name}'.*mnist-sample"):
        ask(name)


@pytest.mark.parametrize("name", ["faces.csv", "some/folder", "/no/such"])
def test_paths_that_do_not_exist(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}'.*lfw-sample, .*path"):
        load_dataset(name)


def test_a_name_goes_before_a_folder_that_shares_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mnist-sample"
    for person, shade in (("anna", 10), ("ben", 200)):
        (folder / person).mkdir(parents=True)
        Image.new("L", (6, 4), shade).save(folder / person / "1.png")
    monkeypatch.chdir(tmp_path)
    assert len(load_dataset("mnist-sample").train) == 4000
    for name in ("./mnist-sample", Path("mnist-sample"), str(folder)):
        assert len(load_dataset(name).train) == 2


def test_a_new_dataset_is_one_entry() -> None:
    DATASETS.add("mine", dataclasses.replace(dataset_entry("mnist-sample"), name="mine"))
    try:
        assert dataset_names() == sorted([*NAMES, "mine"])
        assert load_dataset("mine").name == "mine"
    finally:
        DATASETS.remove("mine")
