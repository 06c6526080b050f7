import math

import pytest

from arcset.data.augment import Affine, parse_augmentation
from arcset.errors import OptionError


def test_what_is_not_written_takes_its_default() -> None:
    assert parse_augmentation("affine") == Affine()
    assert parse_augmentation(" affine : rotate = 15:fill=low ") == Affine(rotate=15, fill="low")
    assert isinstance(parse_augmentation("erasing:count=2").count, int)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("affine:rotate=200", "rotate .*0, 180.*200"),
        ("affine:rotate=nan", "rotate .*nan"),
        ("affine:rotate=much", "rotate .*'much'"),
        ("affine:fill=black", "fill .*edge, zero, low.*'black'"),
        ("elastic:points=2.5", r"points .*2\.5"),
        ("crop:area=0", r"area .*0\.01, 1.* 0"),
        ("affine:turn=5", "'turn'.*rotate, scale, stretch"),
        ("affine:rotate", "'affine:rotate'.*'rotate'"),
        ("flip:vertical=1:vertical=0", "'flip:vertical=1:vertical=0' .*vertical"),
        ("afine", "'afine'.*'affine'.*affine, blur"),
        ("erasing:smallest=0.5", r"smallest .*0\.15.*0\.5"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_augmentation(text)


@pytest.mark.parametrize("value", [True, "5", None, math.inf])
def test_the_constructor_checks_as_well(value: object) -> None:
    with pytest.raises(OptionError, match=r"rotate .*0, 180"):
        Affine(rotate=value)  # type: ignore[arg-type]
