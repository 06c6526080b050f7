"""The kinds of images that are accepted, and how they become what a network takes.

Files, folders, PIL images and arrays are brought to arrays of one shape by a `Reading`; `Pixels`
says how their values are scaled, and `PRESETS` how families of networks want that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import Field

from arcset.data import DATASETS, Reading, open_source
from arcset.data.embeddings import holds_embeddings
from arcset.data.image import Fit
from arcset.data.sources.base import Entry, Source, kind_of
from arcset.data.sources.folder import FileSource, image_files
from arcset.errors import InputError, OptionError
from arcset.registry import unknown_name


@dataclass(frozen=True)
class SourceImage:
    """An image of a source, fetched when it is read: a row of a table, a record, an array.

    str() is what people call it: its path, or its number.
    """

    source: Source
    entry: Entry

    def content(self) -> bytes | npt.NDArray[Any]:
        """The bytes of an image file, or pixels as the picture shows them."""
        return self.source.picture(self.entry)

    def __str__(self) -> str:
        return self.entry.path or f"sample {self.entry.record}"


#: An image that has a name, and is read when it is needed.
ImageFile = Path | SourceImage


@dataclass(frozen=True)
class ImageList:
    """The images of a source, not read yet.

    Fields:
        images: (N,). names: the identity of each; "" where it is unknown.
        paths: as the source calls them, below its folder.
        skipped: what looks like an image and cannot be one, and why.
        notes: sentences about whatever else was passed over.
    """

    images: list[ImageFile]
    names: list[str]
    paths: list[str]
    skipped: dict[str, str]
    notes: Sequence[str]


def list_images(data: Path | str, *, labelled: bool = True) -> ImageList:
    """The images of a folder, a table, records, a pack, arrays, or of one file.

    data: as a text also the name of a dataset. labelled: whether images beside folders that name
    identities are skipped; if not, they have no name.
    The deepest folder that holds an image is its identity; a folder without sub-folders is itself
    one.
    Raises `DataError` where there is no image, and `OptionError` for embeddings.
    """
    path = Path(data)
    if holds_embeddings(path):
        raise OptionError(f"{path} holds embeddings: import them with `arcset gallery import`")
    is_name = isinstance(data, str) and data in DATASETS
    if not is_name and kind_of(path) is None:
        return ImageList([path], [""], [str(path)], {}, ())
    source = open_source(data if is_name else path, labelled=labelled)
    listing = source.list_samples()
    root = source.root if isinstance(source, FileSource) else None
    whole = path.resolve().name if labelled else ""
    return ImageList(
        [SourceImage(source, one) if root is None else root / one.file for one in listing.entries],
        [whole if name == "." else name for name in listing.names],
        listing.paths,
        {path if root is None else str(root / path): why for path, why in listing.skipped},
        listing.notes,
    )


_KINDS = (str, Path, bytes, Image.Image, np.ndarray, SourceImage)  # of one image


def as_sources(images: Any) -> Sequence[Any]:
    """One image or many as a sequence of single ones; a folder as the files below it.

    An array of three axes is one image (H, W, C) if its last axis has 1, 3 or 4 values, and a stack
    of grey ones (N, H, W) otherwise. Raises `InputError` where there is no image.

        >>> len(as_sources(np.zeros((5, 8, 3), np.uint8))), len(as_sources(np.zeros((5, 8, 8))))
        (1, 5)
    """
    if isinstance(images, str | Path) and Path(images).is_dir():
        return image_files(images)
    if isinstance(images, np.ndarray):
        return _single_arrays(images)
    if isinstance(images, _KINDS) or not isinstance(images, Iterable):
        return [check_kind(images)]
    sources = list(images)
    if not sources:
        raise InputError("there is no image to embed: the list is empty")
    return sources


def _single_arrays(array: npt.NDArray[Any]) -> Sequence[Any]:
    if array.ndim not in (2, 3, 4):
        raise InputError(
            "images as an array are uint8, (H, W), (H, W, C), (N, H, W) or (N, H, W, C), and this "
            f"one is {array.dtype}, {array.shape}"
        )
    if not array.size:
        raise InputError(f"there is no image to embed: the array is {array.shape}")
    is_single = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    return [array] if is_single else list(array)


def check_kind(image: Any) -> Any:
    """`image` if it is of a kind that is read; raises `InputError`."""
    if isinstance(image, _KINDS):
        return image
    raise InputError(
        "an image is a path, the bytes of a file, a PIL image or a uint8 array, not "
        f"{type(image).__name__}"
    )


def files_of(paths: ImageFile | str | Iterable[ImageFile | str]) -> list[ImageFile]:
    """Files as they are and, for each folder, the images below it; each file once.

    Raises `DataError` for a folder without images and `InputError` for what is no path.
    """
    files: dict[ImageFile, None] = {}
    for path in [paths] if isinstance(paths, str | ImageFile) else paths:
        if isinstance(path, SourceImage):
            files[path] = None
        elif isinstance(path, str | Path):
            is_folder = Path(path).is_dir()
            files |= dict.fromkeys(image_files(path) if is_folder else [Path(path)])
        else:
            raise InputError(f"files are named by paths, not by {type(path).__name__}")
    return list(files)


def image_name(source: Any, otherwise: str = "the image") -> str:
    """What messages call an image: its path, where it has one."""
    return str(source) if isinstance(source, str | Path | SourceImage) else otherwise


def read_image(source: Any, reading: Reading) -> npt.NDArray[np.uint8]:
    """One image as `reading` wants it; raises `DataError` or `InputError` where that fails."""
    check_kind(source)
    name = ""
    if isinstance(source, SourceImage):
        source, name = source.content(), str(source)
    if isinstance(source, np.ndarray) and source.dtype == np.uint8:
        pixels = source[..., 0] if reading.channels == 1 and source.ndim == 3 else source
        if source.shape[2:] in ((), (reading.channels,)) and pixels.shape == reading.shape:
            return 255 - pixels if reading.invert else pixels  # nothing to resize
    return reading.read(source, name)


# From pixels to what a network takes


@dataclass(frozen=True)
class Pixels:
    """What becomes of an image (H, W, C) of 0 … 255 before a network gets it.

    Fields:
        mean, std: (x − mean) / std, in units of 0 … 255; one value, or one per channel in the
            order of `channels`. None for networks that take the bytes.
        channels: "RGB" or "BGR", the order that the network was trained with; grey images have no
            order.
        size: height and width where neither the network nor the caller fixes them.
        fit: how images of other proportions come to that size, see `Reading`.
        invert: whether images are read as negatives.
    """

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    channels: str = "RGB"
    size: tuple[int, int] | None = None
    fit: Fit = "pad"
    invert: bool = False

    def apply(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """uint8 (N, H, W, C) as a network takes it, still with the channels last.

        >>> Pixels((127.5,), (127.5,)).apply(np.full((1, 1, 1, 1), 255, np.uint8)).tolist()
        [[[[1.0]]]]
        """
        if self.channels == "BGR":
            images = images[..., ::-1]
        if self.mean is None or self.std is None:
            return images
        scaled = images.astype(np.float32)
        scaled -= np.asarray(self.mean, np.float32)
        scaled /= np.asarray(self.std, np.float32)
        return scaled


def _of_unit(*values: float) -> tuple[float, ...]:
    """From 0 … 1, as most papers print them, to 0 … 255."""
    return tuple(255 * value for value in values)


PRESETS: dict[str, Pixels] = {
    # InsightFace and most of ArcFace's kin; aligned faces.
    "arcface": Pixels((127.5,), (127.5,), size=(112, 112)),
    "arcface-128": Pixels((127.5,), (128.0,), size=(112, 112)),
    # OpenCV's zoo: the network scales by itself; OpenCV reads BGR, and swaps before the network.
    "sface": Pixels((0.0,), (1.0,), size=(112, 112)),
    "imagenet": Pixels(
        _of_unit(0.485, 0.456, 0.406), _of_unit(0.229, 0.224, 0.225), size=(224, 224), fit="crop"
    ),
    "clip": Pixels(
        _of_unit(0.48145466, 0.4578275, 0.40821073),
        _of_unit(0.26862954, 0.26130258, 0.27577711),
        size=(224, 224),
        fit="crop",
    ),
    "unit": Pixels((0.0,), (255.0,)),  # 0 … 1
    "symmetric": Pixels((127.5,), (127.5,)),  # −1 … 1
}

#: Those of networks whose images are aligned faces: see `arcset.recognition.faces`.
FACE_PRESETS = ("arcface", "arcface-128", "sface")


@dataclass(frozen=True)
class Published:
    """A threshold that the makers of a network published: of their data, and for no rate.

    Fields:
        threshold: "same" from this cosine on.
        source: where it stands, in words.
    """

    threshold: Annotated[float, Field(ge=-1, le=1)]
    source: Annotated[str, Field(min_length=1, max_length=200, pattern="^[^\\x00-\\x1f\\x7f]*$")]


#: By preset. That of `arcface` is of many networks, of which each needs a threshold of its own.
PUBLISHED = {
    # https://docs.opencv.org/4.x/d0/dd4/tutorial_dnn_face.html; its zoo's demo has the same.
    "sface": Published(0.363, "OpenCV's documentation of SFace: 99.60 % accuracy on LFW"),
}


def preset_names() -> list[str]:
    """Every preset, sorted."""
    return sorted(PRESETS)


def pixels_for(
    preset: str | None,
    *,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    channels: str | None = None,
    fit: Fit | None = None,
    invert: bool = False,
) -> Pixels:
    """A preset with the options given beside it, or these options alone.

    Raises `OptionError` for an unknown preset, channels that are neither RGB nor BGR, and for a
    mean or std that cannot be meant.

        >>> pixels_for("arcface", std=128).std
        (128.0,)
        >>> pixels_for(None, mean=0.5, std=0.5)
        Traceback (most recent call last):
        arcset.errors.OptionError: std=0.5 is below 1: mean and std are in units of 0 … 255, so
            multiply them by 255
    """
    if preset is not None and preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if preset is None and (mean is None) != (std is None):
        raise OptionError("mean and std belong together: give both, or a preset")
    changes: dict[str, Any] = {"invert": invert}
    if mean is not None:
        changes["mean"] = _per_channel("mean", mean)
    if std is not None:
        changes["std"] = _per_channel("std", std)
        if min(changes["std"]) < 1:
            raise OptionError(
                f"std={std!r} is below 1: mean and std are in units of 0 … 255, so multiply them "
                "by 255"
            )
    if channels is not None:
        if str(channels).upper() not in ("RGB", "BGR"):
            raise OptionError(f"channels={channels!r}, expected RGB or BGR")
        changes["channels"] = channels.upper()
    if fit is not None:
        changes["fit"] = fit
    return replace(PRESETS[preset] if preset is not None else Pixels(), **changes)


def _per_channel(name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    values = tuple(float(each) for each in np.atleast_1d(np.asarray(value, dtype=np.float64)))
    if len(values) not in (1, 3) or not np.isfinite(values).all():
        raise OptionError(f"{name}={value!r}, expected one number or three, one per channel")
    return values
