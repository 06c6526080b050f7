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


def test_colours_of_grey_images_are_left_out(pictures: Pictures) -> None:
    for channels in (1, 3):
        images = pictures(2, channels, 8, 8)
        augment = build_augmentation(["colour:brightness=0:contrast=0"], (channels, 8, 8))
        assert (augment(images, _generator()) is images) == (channels == 1)


def test_steps_follow_one_another_from_one_generator(pictures: Pictures) -> None:
    specs = ["flip", "affine", "noise", "blur", "elastic", "erasing"]
    images = pictures(5, 3, 9, 14)
    augment = build_augmentation(specs, (3, 9, 14))
    generator, expected = _generator(), images
    for spec in specs:
        expected = parse_augmentation(spec)(expected, generator)
    torch.testing.assert_close(augment(images, _generator()), expected)


@pytest.mark.parametrize(
    ("specs", "readings"),
    [
        (["affine", "elastic", "crop"], 1),
        (["affine:fill=low", "crop", "elastic:fill=low"], 1),
        (["affine:fill=low", "crop", "elastic:fill=zero"], 2),
        (["affine", "flip", "elastic"], 2),
        (["noise", "flip"], 0),
    ],
)
def test_neighbouring_warps_read_the_image_once(
    specs: list[str], readings: int, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = torch.nn.functional.grid_sample
    bilinear = []

    def counted(images: Tensor, grid: Tensor, mode: str, *rest: str, align_corners: bool) -> Tensor:
        bilinear.extend([mode] if mode == "bilinear" else [])
        return read(images, grid, mode, *rest, align_corners=align_corners)

    monkeypatch.setattr(torch.nn.functional, "grid_sample", counted)
    build_augmentation(specs, (1, 8, 8))(pictures(2, 1, 8, 8), _generator())
    assert len(bilinear) == readings


def test_images_of_another_shape_are_refused() -> None:
    augment = build_augmentation(["flip"], (1, 8, 8))
    with pytest.raises(InputError, match=r"\(B, 1, 8, 8\).*\(2, 3, 8, 8\)"):
        augment(torch.zeros(2, 3, 8, 8), _generator())
