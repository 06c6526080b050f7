"""What a dataset is: labelled samples in memory, one part for training and one for testing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError


class LazyRows:
    """The rows `rows` (N,) of `base` (M, …), mapped from a file: read when they are asked for.

    Behaves as a read-only array (N, …) as far as length, shape, indexing and conversion go.

        >>> view = LazyRows(np.arange(10).reshape(5, 2), np.array([4, 0]))
        >>> view.shape, view[0].tolist(), np.asarray(view).tolist()
        ((2, 2), [8, 9], [[8, 9], [0, 1]])
    """

    def __init__(self, base: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> None:
        self.base = base
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), *self.base.shape[1:])

    @property
    def ndim(self) -> int:
        return self.base.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    def __getitem__(self, index: Any) -> Any:
        first, *inner = index if isinstance(index, tuple) else (index,)
        if first is None or first is Ellipsis:  # says nothing about rows: all of them
            return np.asarray(self)[index]
        rows = self.base[self.rows[first]]  # only these are read
        is_one = isinstance(first, int | np.integer)
        return rows[tuple(inner)] if is_one else rows[(slice(None), *inner)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.base[self.rows], dtype=dtype)


def take_rows(images: Any, chosen: npt.NDArray[Any]) -> Any:
    """The rows `chosen`, numbers or a mask: a copy, or a view where the samples lie in a file."""
    if isinstance(images, LazyRows):
        return LazyRows(images.base, images.rows[chosen])
    return images[chosen]


def join_rows(parts: Sequence[Any], order: npt.NDArray[np.int64]) -> Any:
    """All parts one after the other, then in `order`: a copy, or a view where they share a file."""
    lazy = [part for part in parts if isinstance(part, LazyRows)]
    if len(lazy) == len(parts) and all(part.base is lazy[0].base for part in lazy):
        return LazyRows(lazy[0].base, np.concatenate([part.rows for part in lazy])[order])
    return np.concatenate([np.asarray(part) for part in parts])[order]


def number_names(names: Sequence[str]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The different names, sorted as text, and for each given one its number among them.

    >>> number_names(["b", "a", "b"])
    (('a', 'b'), array([1, 0, 1]))
    """
    class_names = tuple(sorted(set(names)))
    number = {name: label for label, name in enumerate(class_names)}
    return class_names, np.array([number[name] for name in names], np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """Labelled images of one size, or other samples of one shape.

    images: at least one. Pictures are uint8, (N, H, W) grey or (N, H, W, 3) RGB; features of
        anything else are float32, (N, D), (N, H, W) or (N, H, W, C), and finite.
    labels: int64, (N,), each in 0 .. K−1.
    class_names: the K names; `class_names[labels[i]]` is what image i shows.
    paths: where each sample came from, in words that people know it by; None where not known.

    Samples that lie in a file stay there: `images` may be a `LazyRows` of it.

    The arrays are kept as read-only views: nothing is copied, and nothing can be changed through
    the set. Raises `InputError` where the parts do not fit together.

        >>> digits = ImageSet(np.zeros((3, 28, 28), np.uint8), np.array([0, 1, 1]), ("zero", "one"))
        >>> digits
        ImageSet(3 samples of 2 classes, (1, 28, 28))
    """

    images: Any
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        count, classes = len(self.images), len(self.class_names)
        if not count or self.images.dtype not in (np.uint8, np.float32):
            raise InputError(
                f"images must be uint8, or float32 features, and at least one, not {count} of "
                f"{self.images.dtype}"
            )
        if self.labels.shape != (count,) or self.labels.dtype != np.int64:
            raise InputError(
                f"labels must be int64 ({count},), one per image, not {self.labels.dtype} "
                f"{self.labels.shape}"
            )
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= classes:
            raise InputError(f"labels must lie in 0 .. {classes - 1}, not {low} .. {high}")
        if len(set(self.class_names)) != classes:
            twice = next(name for name in self.class_names if self.class_names.count(name) > 1)
            raise InputError(f"class_names holds {twice!r} more than once")
        for name in ("images", "labels"):
            if isinstance(getattr(self, name), np.ndarray):
                view = getattr(self, name).view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        count, classes = len(self), len(self.class_names)
        return f"ImageSet({count:,} samples of {classes:,} classes, {self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample as a network takes it: (C, H, W), or (D,) for vectors."""
        inner = self.images.shape[1:]
        if len(inner) == 1:
            return (inner[0],)
        height, width, *channels = inner
        return (channels[0] if channels else 1, height, width)

    def take(self, chosen: npt.NDArray[Any]) -> "ImageSet":
        """Some of the samples, by their numbers or a mask; those that lie in a file stay there."""
        rows = np.arange(len(self))[chosen]
        paths = None if self.paths is None else tuple(self.paths[row] for row in rows)
        return ImageSet(take_rows(self.images, rows), self.labels[rows], self.class_names, paths)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A named set with its two parts, which share their class names and their image size.

    test: further images of the same classes; None where there are none.
    licence: what the data may be used for, in the words of its publisher.
    held_out: which images of a class count when the class is held out of training: those of the
        test part, where its publisher drew that line, or all of them.
    apart: classes that its publisher keeps out of training, under "validation" and
        "test"; they are held out unless the user says otherwise.
    fit, invert: how image files become these images, see `Reading`.
    skipped: (path, why) of each file that could not be read.
    Raises `InputError` where the parts differ in image size.
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
        if self.test is not None and self.train.shape != self.test.shape:
            raise InputError(
                f"the images of dataset {self.name!r} have the shape {self.train.shape} for "
                f"training and {self.test.shape} for testing"
            )

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, train={self.train!r}, test={self.test!r})"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of all classes, in the order of the labels."""
        return self.train.class_names

    def divide(self, testing: npt.NDArray[np.bool_]) -> "Dataset":
        """With the training images where `testing` (N,) is set as the test part.

        The line is ours then, so all images of a class count when the class is held out.
        """
        if not testing.any():
            return replace(self, held_out="all")
        train, test = self.train.take(~testing), self.train.take(testing)
        return replace(self, train=train, test=test, held_out="all")
