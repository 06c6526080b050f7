import dataclasses

import numpy as np
import pytest

from arcset.data import Dataset, ImageSet
from arcset.errors import InputError

GREY = np.zeros((3, 4, 5), np.uint8)
LABELS = np.array([0, 1, 1])
NAMES = ("a", "b")


@pytest.mark.parametrize(
    ("images", "labels", "names", "message"),
    [
        (GREY.astype(float), LABELS, NAMES, "images .*float64"),
        (GREY, LABELS.astype(np.int32), NAMES, "labels .*int32"),
        (GREY, LABELS[:2], NAMES, r"labels .*\(3,\).*\(2,\)"),
        (GREY, LABELS - 1, NAMES, r"-1 \.\. 0"),
        (GREY, LABELS, ("a", "a"), "class_names .*'a'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    images: np.ndarray, labels: np.ndarray, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ImageSet(images, labels, names)


def test_nothing_can_be_changed_through_the_set() -> None:
    mine = GREY.copy()
    images = ImageSet(mine, LABELS, NAMES)
    with pytest.raises(ValueError, match="read-only"):
        images.images[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        images.labels[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        images.class_names = ()  # type: ignore[misc]
    mine[0] = 1  # the caller's own array stays the caller's
    assert np.shares_memory(mine, images.images)


def test_both_parts_share_their_image_size() -> None:
    train = ImageSet(GREY, LABELS, NAMES)
    assert Dataset("set", train, train, "free").class_names == NAMES
    with pytest.raises(InputError, match=r"'set'.*\(1, 4, 5\).*\(1, 3, 5\)"):
        Dataset("set", train, ImageSet(GREY[:, 1:], LABELS, NAMES), "free")
