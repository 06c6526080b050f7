"""What a dataset is: labelled samples in memory, one part for training and one for testing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from arcset.data.lazy_rows import LazyRows
from arcset.errors import InputError

__all__ = ["Dataset", "ImageSet", "divided"]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images of one size, or other samples of one shape.

    images: at least one. Pictures are uint8, (N, H, W) grey or (N, H, W, 3) RGB; features of
        anything else are float32, (N, D), (N, H, W) or (N, H, W, C), and finite.
    labels: int64, (N,), each in 0 .. K−1.
    class_names: the K names; `class_names[labels[i]]` is what image i shows.
    paths: where each sample came from, in words that people know it by; None where nobody says.

    Samples that lie in a file stay there: `images` may be a `LazyRows` of it.

    The arrays are kept as read-only views: nothing is copied, and nothing can be changed through
    the set. Raises `InputError` where the parts do not fit together.

        >>> digits = ImageSet(np.zeros((3, 28, 28), np.uint8), np.array([0, 1, 1]), ("zero", "one"))
        >>> len(digits), digits.images.shape
        (3, (3, 28, 28))
    """

    images: Any
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _check_images(self.images)
        if self.paths is not None and len(self.paths) != len(self.images):
            raise InputError(f"there are {len(self.images)} images, but {len(self.paths)} paths")
        _check_class_names(self.class_names)
        _check_labels(self.labels, len(self.images), len(self.class_names))
        for name in ("images", "labels"):
            if isinstance(getattr(self, name), np.ndarray):
                view = getattr(self, name).view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample as a network takes it: (C, H, W), or (D,) for vectors."""
        inner = self.images.shape[1:]
        if len(inner) == 1:
            return (inner[0],)
        height, width, *channels = inner
        return (channels[0] if channels else 1, height, width)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named set with its two parts, which share their class names and their image size.

    test: further images of the same classes; None where there are none.
    licence: what the data may be used for, in the words of whoever publishes it.
    held_out: which images of a class count when the class is held out of training: those of the
        test part, where whoever publishes the set drew that line, or all of them.
    apart: classes that whoever publishes the set keeps out of training, under "validation" and
        "test"; they are held out unless somebody says otherwise.
    fit, invert: how image files become these images, see `Reading`.
    skipped: (path, why) of each file that could not be read.
    Raises `InputError` where the parts differ in class names or image size.
    """

    name: str
    train: ImageSet
    test: ImageSet | None
    licence: str
    held_out: Literal["test", "all"] = "test"
    apart: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fit: Literal["pad", "crop", "stretch"] = "pad"
    invert: bool = False
    skipped: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.test is None:
            return
        if self.train.class_names != self.test.class_names:
            raise InputError(
                f"the parts of dataset {self.name!r} name different classes: "
                f"{self.train.class_names} for training and {self.test.class_names} for testing"
            )
        if self.train.images.shape[1:] != self.test.images.shape[1:]:
            raise InputError(
                f"the parts of dataset {self.name!r} have images of different shapes: "
                f"{self.train.images.shape[1:]} for training "
                f"and {self.test.images.shape[1:]} for testing"
            )

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of all classes, in the order of the labels."""
        return self.train.class_names


def divided(
    name: str,
    images: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.int64],
    class_names: tuple[str, ...],
    *,
    testing: npt.NDArray[np.bool_],
    licence: str,
    **options: Any,
) -> Dataset:
    """A dataset whose publisher drew no line: images where `testing` (N,) is set become the test.

    The line is ours, so all images of a class count when the class is held out. `options` are
    further fields of the dataset.
    """
    train, test = (
        ImageSet(images[chosen], labels[chosen], class_names) for chosen in (~testing, testing)
    )
    return Dataset(name, train=train, test=test, licence=licence, held_out="all", **options)


def _check_images(images: object) -> None:
    if isinstance(images, LazyRows):
        images = images.base
    if not isinstance(images, np.ndarray):
        raise InputError(f"images must be a numpy array, not {type(images).__name__}")
    if images.dtype == np.float32:
        if images.ndim not in (2, 3, 4):
            raise InputError(
                f"features must be (N, D), (N, H, W) or (N, H, W, C), not {images.shape}"
            )
        if images.size == 0:
            raise InputError(f"there must be at least one feature, and there are {images.shape}")
        if not np.isfinite(images).all():
            raise InputError("features must be finite, and some are NaN or infinite")
        return
    if images.dtype != np.uint8:
        raise InputError(f"images must be uint8, or float32 features, not {images.dtype}")
    grey, rgb = images.ndim == 3, images.ndim == 4 and images.shape[-1] == 3
    if not (grey or rgb):
        raise InputError(f"images must be (N, H, W) or (N, H, W, 3), not {images.shape}")
    if images.size == 0:
        raise InputError(f"images must hold at least one pixel, and their shape is {images.shape}")


def _check_class_names(class_names: object) -> None:
    fits = isinstance(class_names, tuple) and all(isinstance(name, str) for name in class_names)
    if not fits:
        raise InputError(f"class_names must be a tuple of strings, not {class_names!r}")
    assert isinstance(class_names, tuple)  # for the type checker
    if len(set(class_names)) != len(class_names):
        twice = next(name for name in class_names if class_names.count(name) > 1)
        raise InputError(f"class_names holds {twice!r} more than once")


def _check_labels(labels: object, images: int, classes: int) -> None:
    if not isinstance(labels, np.ndarray):
        raise InputError(f"labels must be a numpy array, not {type(labels).__name__}")
    if labels.dtype != np.int64:
        raise InputError(f"labels must be int64, not {labels.dtype}")
    if labels.shape != (images,):
        raise InputError(f"labels must be ({images},), one per image, not {labels.shape}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(f"labels must lie in 0 .. {classes - 1}, and they span {low} .. {high}")
