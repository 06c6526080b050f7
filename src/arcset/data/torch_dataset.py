"""Between arcset and torch's own loaders: any torch Dataset in, a DataLoader and a P×K sampler out.

selection = select(from_torch(people), None)       # then train(config, out, selection=selection)

loader = to_loader(selection.train, 64, shuffle=True)            # for a loop of one's own
sampler = IdentitySampler(labels, identities=16, samples=4)      # DataLoader(batch_sampler=sampler)
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Sampler
from torch.utils.data import Dataset as TorchDataset

from arcset.data.batches import as_float, as_tensor, balanced_batch_count, balanced_batches
from arcset.data.dataset import Dataset, ImageSet, number_names
from arcset.data.image import Fit, Pixels, Reading, is_grey, to_channels, turn_upright
from arcset.data.sources.arrays import ArraySource
from arcset.data.sources.base import Source
from arcset.data.sources.load import open_source
from arcset.data.sources.samples import choose_reading
from arcset.errors import InputError

_PROBED = 8  # samples that are read twice


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
    reader = _PictureReader(size, channels, fit)
    parts = [
        _read_samples(part, reader, features, workers)
        for part in (dataset, test)
        if part is not None
    ]
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


def is_repeatable(dataset: TorchDataset[Any]) -> bool:
    """Whether a sample is the same whenever it is read, as far as a few read twice can tell.

    It is not where a transform draws: such a dataset has other samples at every reading.
    """
    if isinstance(dataset, IterableDataset):
        first, second = (list(itertools.islice(dataset, _PROBED)) for _ in range(2))
    else:
        count = len(dataset)  # type: ignore[arg-type]
        rows = np.unique(np.linspace(0, count - 1, min(count, _PROBED)).astype(int)).tolist()
        first, second = ([dataset[row] for row in rows] for _ in range(2))
    return len(first) == len(second) and all(
        _are_equal(one[0], other[0]) and _are_equal(one[1], other[1])
        for one, other in zip(first, second, strict=True)
    )


def _are_equal(one: Any, other: Any) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other))


def _read_samples(
    dataset: TorchDataset[Any], reader: "_PictureReader", features: bool, workers: int
) -> tuple[npt.NDArray[Any], list[tuple[int, str]]]:
    """All images (N, …), and the number and name of the class of each."""
    classes = _class_names(dataset)
    images: list[npt.NDArray[Any]] = []
    keys: list[tuple[int, str]] = []
    loader = DataLoader(
        dataset,
        batch_size=64,
        num_workers=workers,
        collate_fn=_without_collating,
        generator=torch.Generator(),  # else the loader draws a seed from the global one
    )
    for sample in itertools.chain.from_iterable(loader):
        name = f"sample {len(images)}"
        if not isinstance(sample, Sequence) or len(sample) < 2:
            raise InputError(f"{name} must be (image, label), not {type(sample)}")
        array = _to_array(sample[0], name, features)
        images.append(reader.read(array, name) if array.dtype == np.uint8 else array)
        keys.append(_class_of(sample[1], classes, name))
        if images[-1].shape != images[0].shape:
            raise InputError(f"{name} is {images[-1].shape}, and the first is {images[0].shape}")
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


def _class_of(label: Any, classes: Sequence[Any] | None, name: str) -> tuple[int, str]:
    if isinstance(label, str):
        return 0, str(label)  # numpy's texts are str, and show themselves otherwise
    if isinstance(label, Tensor | np.ndarray | np.generic) and np.ndim(label) == 0:
        label = label.item()
    if not isinstance(label, int) or isinstance(label, bool):
        raise InputError(f"the label of {name} must be an int or a str, not {label!r}")
    if classes is None:
        return label, str(label)
    if not 0 <= label < len(classes):
        raise InputError(
            f"the label of {name} is {label}, and the dataset names {len(classes)} classes"
        )
    return label, str(classes[label])


def _to_array(image: Any, name: str, features: bool) -> npt.NDArray[Any]:
    """Pixels, uint8 (H, W) or (H, W, C), or what are features, float32."""
    if isinstance(image, Image.Image):
        return np.asarray(to_channels(turn_upright(image), 1 if is_grey(image) else 3, name))
    if isinstance(image, Tensor):
        image = image.float() if image.is_floating_point() else image  # also of 16 bits
        image = image.permute(1, 2, 0) if image.ndim == 3 else image  # (H, W, C)
        image = image.detach().cpu().numpy()
    if not isinstance(image, np.ndarray):
        raise InputError(f"{name} is of {type(image)}: no PIL image, tensor or array")
    is_float = np.issubdtype(image.dtype, np.floating)
    if is_float and (features or image.ndim == 1):
        if not np.isfinite(image).all():
            raise InputError(f"{name} holds values that are not finite")
        return image.astype(np.float32)
    if image.ndim not in (2, 3) or not (is_float or image.dtype == np.uint8):
        raise InputError(f"{name} is no picture: {image.dtype} {image.shape}")
    if not is_float:
        return image
    if not (image.min() >= 0 and image.max() <= 1):  # nor NaN
        raise InputError(
            f"{name} has values from {image.min():g} to {image.max():g}, and pictures have "
            "0 .. 1: leave Normalize out, or say features=True to train on the values as they are"
        )
    return np.asarray(np.rint(image * 255), np.uint8)


@dataclass
class _PictureReader:
    """Brings pictures to one shape; the first one decides about what is not given."""

    size: tuple[int, int] | None
    channels: int | None
    fit: Fit
    reading: Reading | None = None

    def read(self, pixels: Pixels, name: str) -> Pixels:
        size = pixels.shape[:2]
        is_coloured = pixels.ndim == 3 and pixels.shape[2] > 1
        if self.reading is None:
            height, width = self.size or size
            self.reading = Reading(
                self.channels or (3 if is_coloured else 1), height, width, fit=self.fit
            )
        first = (self.reading.height, self.reading.width)
        if self.size is None and size != first:
            raise InputError(
                f"{name} is {size[0]}×{size[1]}, and the first is {first[0]}×{first[1]}: give the "
                "size=(height, width) that all are brought to"
            )
        if self.channels is None and is_coloured and self.reading.channels == 1:
            raise InputError(f"{name} has colours, and the first is grey: give channels=1 or 3")
        return self.reading.read(pixels, name)


class TorchImages(TorchDataset[tuple[Tensor, int]]):
    """Images of arcset as a torch Dataset of (image, label), as its networks take them.

    images: an `ImageSet`, any `Source`, or what `open_source` takes: the name of a dataset, a
        folder, a table, records, a pack or arrays. Image files are decoded when asked for.
    reading: the shape that pictures are brought to, and how; left out, that of files is chosen from
        some of them, and arrays stay as they are.
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
            self._source = images if isinstance(images, Source) else open_source(images)
        listing = self._source.list_samples()
        if self._source.features:
            reading = None
        elif reading is None and self._source.shape is None:
            reading = choose_reading(listing)
        elif reading is not None and self._source.inverted:  # its arrays are inverted already
            reading = replace(reading, invert=not reading.invert)
        self.transform, self._reading = transform, reading
        self._entries = listing.entries
        self.classes, self.targets = number_names(listing.names)
        if isinstance(images, ImageSet):  # which may name classes that have no sample
            self.classes, self.targets = images.class_names, images.labels

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """The image, (C, H, W) or (D,), and its label; raises `DataError` for a damaged file."""
        entry = self._entries[index]
        content = self._source.content(entry)
        if self._reading is not None:
            content = self._reading.read(content, entry.path or f"sample {index}")
        image = as_tensor(np.asarray(content)[None])[0]
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
