import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcset.data.augment import build_augmentation, parse_augmentation
from arcset.data.augment.kinds import Affine, Erasing
from arcset.errors import OptionError


def test_what_is_not_written_takes_its_default() -> None:
    assert parse_augmentation("affine") == Affine()
    assert parse_augmentation(" affine : rotate = 15:fill=low ") == Affine(rotate=15, fill="low")
    assert isinstance(parse_augmentation("erasing:count=2").count, int)  # type: ignore[attr-defined]


@given(
    st.floats(0, 180),
    st.floats(0, 3),
    st.floats(0, 1),
    st.sampled_from(["edge", "zero", "low"]),
)
def test_an_augmentation_writes_its_own_spec(
    rotate: float, scale: float, shift: float, fill: str
) -> None:
    augmentation = Affine(rotate=rotate, scale=scale, shift=shift, fill=fill)
    assert parse_augmentation(str(augmentation)) == augmentation


def test_specs_read_as_a_person_writes_them() -> None:
    assert str(Erasing()) == "erasing:probability=0.5:smallest=0.02:largest=0.15:count=1:fill=noise"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("affine:rotate=200", "rotate .*0, 180.*200"),
        ("affine:rotate=-1", "rotate .*-1"),
        ("affine:rotate=nan", "rotate .*nan"),
        ("affine:rotate=much", "rotate .*'much'"),
        ("affine:rotate=", "rotate .*''"),
        ("affine:fill=black", "fill .*edge, zero, low.*'black'"),
        ("elastic:points=2.5", r"points .*2\.5"),
        ("elastic:points=inf", "points .*inf"),
        ("crop:area=0", r"area .*0\.01, 1.* 0"),
        ("affine:turn=5", "'turn'.*rotate, scale, stretch"),
        ("affine:rotate", "'affine:rotate'.*'rotate'"),
        ("flip:vertical=1:vertical=0", "'flip:vertical=1:vertical=0' .*vertical"),
        ("afine", "'afine'.*'affine'.*affine, blur"),
        ("", "''.*affine, "),
        ("erasing:smallest=0.5", r"smallest .*0\.15.*0\.5"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_augmentation(text)
    with pytest.raises(OptionError):
        build_augmentation(["flip", text], (1, 8, 8))


@pytest.mark.parametrize("value", [True, "5", None, math.inf])
def test_the_constructor_checks_as_well(value: object) -> None:
    with pytest.raises(OptionError, match=r"rotate .*0, 180"):
        Affine(rotate=value)  # type: ignore[arg-type]


def test_a_text_is_no_list_of_texts() -> None:
    with pytest.raises(OptionError, match="'flip'"):
        build_augmentation("flip", (1, 8, 8))


@pytest.mark.parametrize("shape", [(1, 8), (1, 0, 8)])
def test_shapes_are_checked(shape: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match=r"shape .*\(1, "):
        build_augmentation(["flip"], shape)  # type: ignore[arg-type]
