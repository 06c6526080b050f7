import numpy as np
import pytest
import torch

from arcset import OptionError, RunError
from arcset.runs import Run, RunConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"data": None}, "data=None"),
        ({"epochs": 0}, "epochs=0"),
        ({"dim": "big"}, "dim='big'"),
        ({"scale": float("nan")}, "scale=nan"),
        ({"schedule": "steps"}, "schedule='steps'.*one-cycle"),
        ({"epoch": 3}, "'epoch'.*'epochs'"),
        ({"best_by": "eer"}, "best_by='eer'.*map"),
        ({"hold_out": {"test": None}}, r"hold_out\.test=None.*number.*list"),
        ({"options": {"a": [1]}}, r"options\.a=\[1\].*true or false.*number.*text"),
        ({"size": [64]}, r"size=\[64\] has too few"),
        ({"size": "x"}, "size='x' .*list"),
        ({"size": [64, 0]}, r"size\.1=0"),
        ({"shape": (1, 10**9, 28)}, "shape"),
        ({"shape": (1, 2, 3, 4)}, "shape"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_value(values, message):
    with pytest.raises(OptionError, match=message):
        RunConfig(**{"data": "mnist", **values})
    with pytest.raises(OptionError, match="'data'"):
        RunConfig()


VALUES = [None, True, -1, 1.5, "", b"\xff", [[1]], {"a": [{}]}, {5: 5}, torch.zeros(5000)]
VALUES += [np.zeros(900), object(), 10**5000, "x" * 5000, "a\nb\x1b[2J", float("inf")]


@pytest.mark.parametrize("name", RunConfig.model_fields)
def test_a_setting_fits_or_is_refused_in_one_short_line(name):
    for value in VALUES:
        try:
            RunConfig(**{"data": "mnist", name: value})
        except OptionError as error:
            said = str(error)
            assert said.startswith(name)
            assert said.isprintable()
            assert len(said) < 250


@pytest.mark.parametrize(
    "name", [name for name, field in RunConfig.model_fields.items() if field.annotation is int]
)
def test_numbers_that_nothing_could_hold_are_refused_when_a_run_is_opened(tmp_path, name):
    (tmp_path / "config.toml").write_text(f'data = "mnist"\n{name} = {10**30}\n')
    with pytest.raises(RunError, match=rf"config\.toml.*{name}="):
        Run.open(tmp_path)


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
    {"hold_out": {"validation": ("Latin/*", 'a"b\\c'), "test": ("Gr?ek/*",)}, "channels": 3},
    {"hold_out": {"test": 0.5}, "augment": ("affine:rotate=10", "flip"), "size": (1, 2)},
    {"hold_out": {}, "augment": (), "fit": "crop", "invert": True},
]


@pytest.mark.parametrize("settings", CONFIGS)
def test_every_kind_of_value_survives_toml(settings, tmp_path) -> None:
    config = RunConfig(data="mnist", **settings)
    config.save(tmp_path / "config.toml")
    again = RunConfig.load(tmp_path / "config.toml")
    assert again == config
    assert again.model_dump() == config.model_dump()
    assert config.replace() == config
