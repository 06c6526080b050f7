import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from arcset.data.rotated_classes import class_transforms
from arcset.errors import InputError

NAMES = ["none", "rotations", "reflections", "both"]


def _pixels(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def _by_hand(image: Tensor, name: str, which: int) -> Tensor:
    """One image (C, H, W) by torch's own words."""
    if name == "reflections":
        return image.flip(-1) if which else image
    mirrored, turns = divmod(which, 4)
    return torch.rot90(image.flip(-1) if mirrored else image, turns, (-2, -1))


@given(
    st.sampled_from(NAMES),
    st.integers(0, 20),
    st.sampled_from([1, 3]),
    st.integers(1, 6),
    st.integers(0, 999),
    st.booleans(),
)
def test_every_image_is_transformed_exactly(
    name: str, batch: int, channels: int, side: int, seed: int, floats: bool
) -> None:
    transforms = class_transforms(name)
    images = _pixels(batch, channels, side, side)
    images = images.float() / 255 if floats else images
    generator = torch.Generator().manual_seed(seed)
    which = torch.randint(transforms.count, (batch,), generator=generator)
    result = transforms.apply(images, which)
    assert result.dtype == images.dtype
    for sample in range(batch):
        assert torch.equal(result[sample], _by_hand(images[sample], name, int(which[sample])))


@pytest.mark.parametrize("name", ["rotations", "both"])
def test_turns_need_square_images(name: str) -> None:
    expected = f"{name!r}.*5×4"
    for act in (
        lambda transforms: transforms.apply(_pixels(2, 1, 5, 4), torch.zeros(2, dtype=torch.int64)),
        lambda transforms: transforms.check((1, 5, 4)),
    ):
        with pytest.raises(InputError, match=expected):
            act(class_transforms(name))
