"""Laws for every named dataset, and what is said about names that are none."""

import subprocess
import sys
from pathlib import Path

import pytest

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

NAMES = ["lfw-sample", "mnist", "mnist-sample", "omniglot", "orl"]


def test_the_names() -> None:
    assert dataset_names() == NAMES


@pytest.mark.parametrize("name", dataset_names())
def test_entries_tell_the_truth(name: str) -> None:
    entry = dataset_entry(name)
    assert (entry.name, entry.locate()) == (name, locate(name))
    assert entry.title
    if locate(name).startswith("not here"):
        pytest.skip(f"{name} is {locate(name)}; set ARCSET_DATA to a folder that holds {name}/")
    dataset = load_dataset(name)
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
        with pytest.raises(OptionError, match=f"no dataset is called '{name}'; .*mnist-sample"):
            ask(name)
    with pytest.raises(OptionError, match="did you mean 'mnist-sample'"):
        ask("mnist_sample")


def test_paths_are_recognized_and_declined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declined = f"this version reads named datasets only: {', '.join(NAMES)}"
    with pytest.raises(OptionError, match=f"'{tmp_path}' is a path, and {declined}"):
        load_dataset(str(tmp_path))
    for name in ("faces.csv", "some/folder", "arrays.npz"):
        with pytest.raises(OptionError, match=f"'{name}' is a path, which does not exist, and"):
            load_dataset(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faces").mkdir()
    with pytest.raises(OptionError, match=f"'faces' is a path, and {declined}"):
        load_dataset("faces")
    (tmp_path / "mnist-sample").mkdir()  # a name goes before a folder that happens to share it
    assert len(load_dataset("mnist-sample").train) == 4000


def test_a_new_dataset_is_one_entry() -> None:
    sample = dataset_entry("mnist-sample")
    entry = DatasetEntry("mine", "t", "l", 10, 4000, 1000, lambda: "here", sample.load, str)
    DATASETS.add("mine", entry)
    try:
        assert dataset_names() == sorted([*NAMES, "mine"])
        assert locate("mine") == "here"
    finally:
        DATASETS.remove("mine")


@pytest.mark.parametrize(
    "module", ["arcset.data.mnist", "arcset.data.orl", "arcset.data.registry", "arcset.data"]
)
def test_any_module_can_be_imported_first(module: str) -> None:
    script = f"import {module}; from arcset.data import dataset_names; print(dataset_names())"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(NAMES)
