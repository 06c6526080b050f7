"""Between arcset and torch's own loaders: any torch Dataset in, a DataLoader and a P×K sampler out.

selection = select(from_torch(people), None)       # then train(config, out, selection=selection)

loader = to_loader(selection.train, 64, shuffle=True)            # for a loop of one's own
sampler = IdentitySampler(labels, identities=16, samples=4)      # DataLoader(batch_sampler=sampler)
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import Dataset as TorchDataset

from arcset.data.batches import (
    as_float,
    as_tensor,
    balanced_batch_count,
    balanced_batches,
)
from arcset.data.dataset import Dataset, ImageSet
from arcset.data.image import Fit, Reading, is_grey
from arcset.data.sources.arrays import ArraySource
from arcset.data.sources.base import Source
from arcset.data.sources.load import open_source
from arcset.data.sources.samples import choose_reading
from arcset.errors import InputError

__all__ = ["IdentitySampler", "TorchImages", "from_torch", "to_loader"]

_AT_ONCE = 64  # samples that a worker hands over


def from_torch(
    dataset: TorchDataset[Any],
    test: TorchDataset[Any] | None = None,
    *,
    name: str = "torch dataset",
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    fit: Fit = "pad",
    features: bool = False,
    workers: int = 0,
) -> Dataset:
    """A torch Dataset of (image, label) as a dataset that arcset trains on, read into memory once.

    An image is a PIL image; a tensor (C, H, W) or (H, W); or an array (H, W, C) or (H, W). Values
    are uint8, or floats in 0 .. 1 as torchvision's `ToTensor` gives them, which become uint8 again.
    A vector of floats (D,) stays what it is. What a sample holds after image and label is ignored.

    A label is a whole number or a text. A number is looked up in the dataset's `classes`, as
    torchvision's datasets and subsets of them have it, and is its own name where there is none.

    Args:
        dataset: any map-style or iterable dataset.
        test: further images of the same classes.
        name: what messages and the run call it.
        size: (height, width) that all pictures are brought to, as `fit` says; left out, they must
            all be as large as the first.
        channels: 1 for grey, 3 for RGB; left out, as the first picture is.
        features: floats are no pictures but stay as they are; bring them to about −1 .. 1.
        workers: processes that read, as of a DataLoader.

    Raises:
        InputError: a sample that is none of these, or does not fit the others.

    Example:
        >>> pixels = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8)
        >>> pairs = torch.utils.data.TensorDataset(pixels, torch.tensor([5, 5, 7, 7, 9, 9]))
        >>> dataset = from_torch(pairs)
        >>> dataset.train.images.shape, dataset.class_names
        ((6, 8, 8, 3), ('5', '7', '9'))
    """
    to_array = _ToArray(size, channels, fit, features)
    parts = [_read(part, to_array, workers) for part in (dataset, test) if part is not None]
    classes = sorted({key for _, keys in parts for key in keys})  # (number, name)
    row = {key: index for index, key in enumerate(classes)}
    class_names = tuple(name for _, name in classes)
    train, *tests = (
        ImageSet(images, np.array([row[key] for key in keys], np.int64), class_names)
        for images, keys in parts
    )
    return Dataset(
        name,
        train=train,
        test=tests[0] if tests else None,
        licence="unknown",
        held_out="all",
        fit=fit,
    )


def _read(
    dataset: TorchDataset[Any], to_array: "_ToArray", workers: int
) -> tuple[npt.NDArray[Any], list[tuple[int, str]]]:
    """All images (N, …), and the number and name of the class of each."""
    classes = _class_names(dataset)
    images: list[npt.NDArray[Any]] = []
    keys: list[tuple[int, str]] = []
    loader = DataLoader(
        dataset,
        batch_size=_AT_ONCE,
        num_workers=workers,
        collate_fn=_without_collating,
        generator=torch.Generator(),  # else the loader draws a seed from everybody's
    )
    for samples in loader:
        for sample in samples:
            position = len(images)
            if not isinstance(sample, Sequence) or len(sample) < 2:
                raise InputError(f"sample {position} must be (image, label), not {type(sample)}")
            images.append(to_array(sample[0], position))
            keys.append(_class_of(sample[1], classes, position))
    if not images:
        raise InputError("the torch dataset holds no samples")
    return np.stack(images), keys


def _without_collating(samples: list[Any]) -> list[Any]:
    return samples


def _class_names(dataset: Any) -> Sequence[Any] | None:
    """`classes` of a torchvision dataset, also below a Subset; None where there is none."""
    while dataset is not None:
        if isinstance(classes := getattr(dataset, "classes", None), list | tuple):
            return classes
        dataset = getattr(dataset, "dataset", None)
    return None


def _class_of(label: Any, classes: Sequence[Any] | None, position: int) -> tuple[int, str]:
    if isinstance(label, str):
        return 0, label
    if isinstance(label, Tensor | np.ndarray | np.generic) and np.ndim(label) == 0:
        label = label.item()
    if not isinstance(label, int) or isinstance(label, bool):
        raise InputError(f"the label of sample {position} must be an int or a str, not {label!r}")
    if classes is None:
        return label, str(label)
    if not 0 <= label < len(classes):
        raise InputError(
            f"the label of sample {position} is {label}, and the dataset names {len(classes)} "
            "classes"
        )
    return label, str(classes[label])


class _ToArray:
    """Makes arrays of one shape; the first image decides about what is not given."""

    def __init__(
        self, size: tuple[int, int] | None, channels: int | None, fit: Fit, features: bool
    ) -> None:
        self._size, self._channels, self._fit, self._features = size, channels, fit, features
        self._reading: Reading | None = None
        self._shape: tuple[int, ...] | None = None

    def __call__(self, image: Any, position: int) -> npt.NDArray[Any]:
        if isinstance(image, Image.Image):
            image = ImageOps.exif_transpose(image)
            array = self._read(image, (image.height, image.width), not is_grey(image), position)
        elif not isinstance(image, Tensor | np.ndarray):
            raise InputError(f"image {position} is of {type(image)}: no PIL image, tensor or array")
        else:
            if isinstance(image, Tensor):
                image = image.float() if image.is_floating_point() else image  # also of 16 bits
                image = image.permute(1, 2, 0) if image.ndim == 3 else image  # (H, W, C)
                image = image.detach().cpu().numpy()
            array = self._convert(image, position)
        self._shape = self._shape or array.shape
        if array.shape != self._shape:
            raise InputError(f"image {position} is {array.shape}, and the first is {self._shape}")
        return array

    def _convert(self, array: npt.NDArray[Any], position: int) -> npt.NDArray[Any]:
        floats = np.issubdtype(array.dtype, np.floating)
        if floats and (self._features or array.ndim == 1):
            return array.astype(np.float32)
        if array.ndim not in (2, 3) or not (floats or array.dtype == np.uint8):
            raise InputError(f"image {position} is no picture: {array.dtype} {array.shape}")
        if floats:
            if not (array.min() >= 0 and array.max() <= 1):  # nor NaN
                raise InputError(
                    f"image {position} has values from {array.min():g} to {array.max():g}, and "
                    "pictures have 0 .. 1: leave Normalize out, or say features=True to train on "
                    "the values as they are"
                )
            array = np.rint(array * 255).astype(np.uint8)
        coloured = array.ndim == 3 and array.shape[2] > 1
        return self._read(array, (array.shape[0], array.shape[1]), coloured, position)

    def _read(
        self, image: Any, size: tuple[int, int], coloured: bool, position: int
    ) -> npt.NDArray[Any]:
        if self._reading is None:
            channels = self._channels or (3 if coloured else 1)
            self._reading = Reading(channels, *(self._size or size), fit=self._fit)
        reading = self._reading
        if self._size is None and size != (reading.height, reading.width):
            raise InputError(
                f"image {position} is {size[0]}×{size[1]}, and the first is {reading.height}×"
                f"{reading.width}: give the size=(height, width) that all are brought to"
            )
        if self._channels is None and coloured and reading.channels == 1:
            raise InputError(
                f"image {position} has colours, and the first is grey: give channels=1 or 3"
            )
        return reading.read(image, f"image {position}")


class TorchImages(TorchDataset[tuple[Tensor, int]]):
    """Images of arcset as a torch Dataset of (image, label), as its networks take them.

    images: an `ImageSet`, any `Source`, or what `open_source` takes: the name of a dataset, a
        folder, a table, records, a pack or arrays. Image files are decoded when asked for.
    reading: how files are decoded; left out, it is chosen from some of them.
    transform: applied to each image, a uint8 tensor (C, H, W) (features: float32), before it
        becomes float32 in −1 .. 1; one that gives floats has the last word.
    classes: the names of the classes. targets: the label of each sample, int64 (N,).

        >>> digits = TorchImages("mnist-sample")
        >>> image, label = digits[0]
        >>> len(digits), image.shape, image.dtype, digits.classes[label]
        (5000, torch.Size([1, 28, 28]), torch.float32, '0')
    """

    def __init__(
        self,
        images: ImageSet | Source | Path | str,
        *,
        reading: Reading | None = None,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if isinstance(images, ImageSet):
            self._source: Source = ArraySource(images, "images", "arrays")
        else:
            self._source = images if isinstance(images, Source) else open_source(str(images))
        if reading is None and self._source.shape is None:
            reading = choose_reading(self._source.list_samples())
        self.transform, self._reading = transform, reading
        self._entries = [entry for entry in self._source.entries() if not entry.why]
        names = [entry.label for entry in self._entries]
        self.classes = (
            images.class_names if isinstance(images, ImageSet) else tuple(sorted(set(names)))
        )
        row = {name: index for index, name in enumerate(self.classes)}
        self.targets = np.array([row[name] for name in names], np.int64)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The image, (C, H, W) or (D,), and its label; raises `DataError` for a damaged file."""
        entry = self._entries[index]
        content = self._source.content(entry)
        if isinstance(content, bytes):
            assert self._reading is not None  # files are decoded, arrays are not
            content = self._reading.read(content, entry.path or "")
        image = as_tensor(content[None])[0]
        if self.transform is not None:
            image = self.transform(image)
        return as_float(image), int(self.targets[index])


def to_loader(
    images: ImageSet | Source | Path | str,
    batch: int = 64,
    *,
    shuffle: bool = False,
    sampler: Sampler[list[int]] | None = None,
    seed: int = 0,
    reading: Reading | None = None,
    transform: Callable[[Tensor], Tensor] | None = None,
    workers: int = 0,
) -> DataLoader[Any]:
    """A DataLoader over images of arcset: float32 (B, C, H, W) in −1 .. 1, and labels (B,).

    Args:
        images, reading, transform: as of `TorchImages`.
        batch: samples in each batch; the last one may hold fewer.
        shuffle: another order in each epoch; `seed` decides which.
        sampler: yields the batches itself, as `IdentitySampler` does; `batch`, `shuffle` and `seed`
            have no meaning then.
        workers: processes that decode.

    Example:
        >>> from arcset.data import load_dataset
        >>> loader = to_loader(load_dataset("mnist-sample").train, 100, shuffle=True)
        >>> pixels, labels = next(iter(loader))
        >>> len(loader), pixels.shape, labels.dtype
        (40, torch.Size([100, 1, 28, 28]), torch.int64)
    """
    dataset = TorchImages(images, reading=reading, transform=transform)
    if sampler is not None:
        return DataLoader(dataset, batch_sampler=sampler, num_workers=workers)
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(
        dataset, batch_size=batch, shuffle=shuffle, generator=generator, num_workers=workers
    )


class IdentitySampler(Sampler[list[int]]):
    """Batches of `identities` (P) classes with `samples` (K) samples each, for any DataLoader.

    The batches are those of `balanced_batches`, by which arcset trains itself: every class comes as
    often as any other, and goes through all its samples before one comes again. They follow from
    the seed and the epoch alone; `set_epoch` before each epoch gives other ones.

    labels: of all samples, (N,): whole numbers or texts, in a tensor, an array or a list.
    Raises `OptionError` where there are fewer than P classes.

        >>> sampler = IdentitySampler(["a", "a", "b", "b", "c", "c"], identities=2, samples=2)
        >>> sampler.set_epoch(1)
        >>> [len(batch) for batch in sampler]
        [4, 4]
    """

    def __init__(
        self,
        labels: Tensor | npt.NDArray[Any] | Sequence[Any],
        identities: int,
        samples: int,
        *,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
        if array.ndim != 1:
            raise InputError(f"labels must be (N,), one per sample, not {array.shape}")
        numbers = np.unique(array, return_inverse=True)[1]
        self._labels = torch.from_numpy(numbers.astype(np.int64))
        self._count = balanced_batch_count(self._labels, identities, samples)
        self.identities, self.samples, self.seed, self.epoch = identities, samples, seed, epoch

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration is of, as `DistributedSampler` has it."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[int]]:
        batches = balanced_batches(
            self._labels, self.identities, self.samples, seed=self.seed, epoch=self.epoch
        )
        return (index.tolist() for index in batches)
