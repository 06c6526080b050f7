import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset import OptionError, RunError
from arcset.runs import RunConfig


@given(
    dim=st.integers(2, 4096),
    scale=st.none() | st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**31),
    classes=st.none() | st.text("0123456789-,", min_size=1),
    split=st.none() | st.sampled_from(["split.json", "C:\\mine\\split.json"]),
    bias=st.booleans(),
)
def test_toml_round_trip(tmp_path_factory, dim, scale, seed, classes, split, bias):
    path = tmp_path_factory.mktemp("config") / "config.toml"
    config = RunConfig(
        data="mnist",
        dim=dim,
        scale=scale,
        seed=seed,
        classes=classes,
        split=split,
        options={"bias": bias, "weight": 0.5, "base": "arcface"},
        shape=(1, 28, 28),
        class_names=("a", "b"),
    )
    config.save(path)
    assert RunConfig.load(path) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'data'"),
        ({"data": "mnist", "epochs": 0}, "epochs=0"),
        ({"data": "mnist", "dim": "big"}, "dim='big'"),
        ({"data": "mnist", "learning_rate": -1}, "learning_rate=-1"),
        ({"data": "mnist", "scale": float("nan")}, "scale=nan"),
        ({"data": "mnist", "schedule": "steps"}, "schedule='steps'.*one-cycle"),
        ({"data": "mnist", "epoch": 3}, "'epoch'.*data"),
    ],
)
def test_refused(values, message):
    with pytest.raises(OptionError, match=message):
        RunConfig(**values)


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
