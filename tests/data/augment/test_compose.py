from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arcset.data.augment import build_augmentation, parse_augmentation
from arcset.errors import InputError

Pictures = Callable[..., Tensor]


def _generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_with_nothing_to_do_the_input_itself_comes_back(pictures: Pictures) -> None:
    images = pictures(2, 1, 8, 8)
    for specs in ([], ["noise:strength=0", "flip:probability=0"], ["crop:area=1"]):
        assert build_augmentation(specs, (1, 8, 8))(images, _generator()) is images


def test_steps_follow_one_another_from_one_generator(pictures: Pictures) -> None:
    specs = ["flip", "affine", "noise", "blur", "elastic", "erasing"]
    images = pictures(5, 3, 9, 14)
    augment = build_augmentation(specs, (3, 9, 14))
    generator, expected = _generator(), images
    for spec in specs:
        expected = parse_augmentation(spec)(expected, generator)
    torch.testing.assert_close(augment(images, _generator()), expected)


def test_images_of_another_shape_are_refused() -> None:
    augment = build_augmentation(["flip"], (1, 8, 8))
    with pytest.raises(InputError, match=r"\(B, 1, 8, 8\).*\(2, 3, 8, 8\)"):
        augment(torch.zeros(2, 3, 8, 8), _generator())
