import numpy as np
import pytest
import torch

from arcset import OptionError, RunError
from arcset.runs import Run, RunConfig
from arcset.runs.config import read_settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'data'"),
        ({"data": "mnist", "epochs": 0}, "epochs=0"),
        ({"data": "mnist", "dim": "big"}, "dim='big'"),
        ({"data": "mnist", "learning_rate": -1}, "learning_rate=-1"),
        ({"data": "mnist", "scale": float("nan")}, "scale=nan"),
        ({"data": "mnist", "schedule": "steps"}, "schedule='steps'.*one-cycle"),
        ({"data": "mnist", "epoch": 3}, "'epoch'.*'epochs'"),
        ({"data": "mnist", "learningrate": 3}, "'learningrate'.*'learning_rate'"),
        ({"data": "mnist", "hold_out": {"test": None}}, r"hold_out\.test=None.*number.*list"),
        ({"data": "mnist", "size": [64]}, r"size=\[64\]"),
        ({"data": "mnist", "size": [64, 0]}, r"size\.1=0"),
    ],
)
def test_refused(values, message):
    with pytest.raises(OptionError, match=message):
        RunConfig(**values)


VALUES = [None, True, -1, 5, 1.5, "x", "", b"\xff", [], [5], [[1]], {}, {"a": [{}]}, {5: 5}]
VALUES += [np.zeros(900), torch.zeros(5000), object(), 10**5000, "x" * 5000, list(range(5000))]
VALUES += ["a\nb\x1b[2J", float("inf")]


@pytest.mark.parametrize("name", RunConfig.model_fields)
def test_a_setting_fits_or_is_refused_in_our_words(name):
    for value in VALUES:
        try:
            RunConfig(**{"data": "mnist", name: value})
        except OptionError as error:
            said = str(error)
            assert said.startswith(name)
            assert said.isprintable()
            assert len(said) < 200
            assert not {"Input", "Value", "should", "valid", "unable"} & set(said.split())


@pytest.mark.parametrize("value", ["5", '"x"', "[]", "true", "1979-05-27"])
def test_options_that_are_no_table_are_refused_when_they_are_read(tmp_path, value):
    path = tmp_path / "settings.toml"
    path.write_text(f"options = {value}\n")
    with pytest.raises(RunError, match=r"settings\.toml.*options="):
        read_settings(path)


@pytest.mark.parametrize("value", [2**63, 10**18, 10**30])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, field in RunConfig.model_fields.items()
        if field.annotation is int and name != "seed"
    ],
)
def test_sizes_that_nothing_could_hold_are_refused_when_a_run_is_opened(tmp_path, name, value):
    (tmp_path / "config.toml").write_text(f'data = "mnist"\n{name} = {value}\n')
    with pytest.raises(RunError, match=rf"config\.toml.*{name}={value}"):
        Run.open(tmp_path)


@pytest.mark.parametrize("shape", [(10**9, 10**9, 10**9), (1, 10**9, 28), (10**9,), (1, 2, 3, 4)])
def test_shapes_of_no_image_are_refused(shape):
    with pytest.raises(OptionError, match="shape"):
        RunConfig(data="mnist", shape=shape)


def test_frozen_and_replaced():
    config = RunConfig(data="mnist")
    with pytest.raises(ValueError, match="frozen"):
        config.dim = 3
    assert config.replace(dim=3).dim == 3
    with pytest.raises(OptionError, match="dim=1"):
        config.replace(dim=1)


@pytest.mark.parametrize("content", [b"data = ", b"\xff\xfe", b"nothing = 1", b""])
def test_damaged_file(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"config\.toml"):
        RunConfig.load(path)


CONFIGS = [
    {"scale": 0.1, "seed": 2**62, "classes": "0-4,7", "split": "C:\\mine\\split.json"},
    {"options": {"bias": True, "weight": 0.5, "base": "arcface"}, "class_names": ("a", "b")},
    {"hold_out": {"validation": 0.1, "test": 0.25}, "size": (64, 48)},
    {"hold_out": {"validation": ("Latin/*", 'a"b\\c'), "test": ("Gr?ek/*",)}, "channels": 3},
    {"hold_out": {"test": 0.5}, "augment": ("affine:rotate=10", "flip"), "size": (1, 2)},
    {"hold_out": {}, "augment": (), "fit": "crop", "invert": True},
    {"per_class": 4, "accumulate": 2, "ema": 0.9, "clip": 1.0, "autocast": "float16", "warm_up": 0},
]


@pytest.mark.parametrize("settings", CONFIGS)
def test_every_kind_of_value_survives_toml(settings, tmp_path) -> None:
    config = RunConfig(data="mnist", **settings)
    config.save(tmp_path / "config.toml")
    again = RunConfig.load(tmp_path / "config.toml")
    assert again == config
    assert again.model_dump() == config.model_dump()
    assert config.replace() == config
