"""Training sets in InsightFace's form: `train.rec`, `train.idx` and `property`, without mxnet."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from arcset.data.insightface.record_file import Heads, RecordFile
from arcset.data.insightface.record_index import read_index
from arcset.data.own.listing import Listing
from arcset.errors import DataError

__all__ = ["RecordListing"]

_EXACT = 1 << 24  # from here on, float32 no longer holds every whole number


class RecordListing(Listing):
    """The images of a `.rec` file, by the numbers of their identities.

    place: a `.rec` file, or a folder that holds `train.rec`.

    The `.idx` file beside it says where the records are. Without one, the file is walked once from
    its start, and each record's own id is its key (its position, where ids come twice).

    Record 0 of InsightFace's sets holds no image but two labels: the first key past the images and
    the first past the records of the identities, which follow the images. Then the images are the
    records from 1 up to the former. Where there is no such record, all records are images. An
    image's identity is its label, or the first of its labels.

    All heads are read once, and no image before it is asked for. Two processes or threads may share
    one listing. Raises `DataError` with one sentence that names the file, and the record where it
    is about one.

    file, keys (N,), offsets (N,): where the images are, for whoever reads them without a listing.
    classes, size: number of identities, and height and width, as the file `property` in the same
    folder has them; None without one. Where it is wrong about the identities, `notes` says so.
    """

    kind = "InsightFace records"

    def __init__(self, place: Path) -> None:
        path = place / "train.rec" if place.is_dir() else place
        self.place = place
        self.file = RecordFile(path)
        keys, offsets, heads = _listed(self.file)
        chosen = _images(keys, heads, path)
        labels = _identities(keys[chosen], heads.labels[chosen, 0], path)
        self.keys, self.offsets = keys[chosen], offsets[chosen]
        self.names = _Shown(labels, str)
        self.paths = _Shown(self.keys, lambda key: f"{path.name}#{key}")
        self.classes, self.size = _property(path.parent / "property")
        found = len(np.unique(labels))
        if self.classes not in (None, found):
            self.notes = (
                f"{path.parent / 'property'} announces {self.classes:,} identities, "
                f"and {path.name} holds {found:,}",
            )

    def content(self, index: int) -> bytes:
        """The encoded image; raises `DataError` where the record holds none."""
        key = int(self.keys[index])
        image = self.file.image(int(self.offsets[index]), key)
        if not image:
            raise DataError(f"record {key} of {self.file.path} holds no image")
        return image


class _Shown(Sequence[str]):
    """Numbers as text, made when looked at: millions of them take no memory as text."""

    def __init__(self, numbers: npt.NDArray[np.int64], text: Callable[[int], str]) -> None:
        self._numbers, self._text = numbers, text

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "_Shown": ...
    def __getitem__(self, index: int | slice) -> "str | _Shown":
        if isinstance(index, slice):
            return _Shown(self._numbers[index], self._text)
        return self._text(int(self._numbers[index]))


def _listed(
    file: RecordFile,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Heads]:
    """Keys (N,), offsets (N,) and heads of all records, by rising key."""
    index = file.path.with_suffix(".idx")
    if index.exists():
        keys, offsets = read_index(index)
        heads = None
    else:
        offsets = file.scan()
        positions = np.arange(len(offsets))
        heads = file.heads(offsets, positions)
        keys = heads.ids.astype(np.int64)
        if (keys < 0).any() or len(np.unique(keys)) < len(keys):
            keys = positions
    order = np.argsort(keys, kind="stable")
    keys, offsets = keys[order], offsets[order]
    if heads is None:
        return keys, offsets, file.heads(offsets, keys)
    return keys, offsets, heads.at(order)


def _images(keys: npt.NDArray[np.int64], heads: Heads, path: Path) -> npt.NDArray[np.bool_]:
    """Which records (N,) are images."""
    if not len(keys):
        raise DataError(f"{path} holds no records")
    announces = keys[0] == 0 and heads.counts[0] >= 2 and heads.sizes[0] == 0
    if not announces:
        return np.ones(len(keys), np.bool_)
    label = heads.labels[0, 0]
    if not (1 <= label < 2**62) or label % 1:
        raise DataError(f"record 0 of {path} announces {label:g} as the first key past the images")
    past = int(label)
    chosen = (keys > 0) & (keys < past)
    if past >= _EXACT:
        # The number was rounded, by this much at most; records without an image tell the rest.
        off = int(np.spacing(label))
        near = (keys >= past - off) & (keys <= past + off)
        return (chosen & ~near) | (near & (heads.sizes > 0))
    if chosen.sum() != past - 1:
        raise DataError(
            f"record 0 of {path} announces {past - 1:,} images, and its index has "
            f"{chosen.sum():,} of them: one of the two files is cut short or belongs elsewhere"
        )
    if not chosen.any():
        raise DataError(f"{path} holds no images")
    return chosen


def _identities(
    keys: npt.NDArray[np.int64], labels: npt.NDArray[np.float32], path: Path
) -> npt.NDArray[np.int64]:
    """Labels (N,) as whole numbers."""
    with np.errstate(invalid="ignore"):
        wrong = ~((labels >= 0) & (labels < 2**53) & (labels % 1 == 0))  # NaN fits nothing
    if wrong.any():
        first = int(wrong.argmax())
        raise DataError(
            f"record {keys[first]} of {path} has the label {labels[first]:g}, "
            "and identities are numbered 0, 1, 2, …"
        )
    return labels.astype(np.int64)


def _property(path: Path) -> tuple[int | None, tuple[int, int] | None]:
    """Number of identities, and height and width, from one line "classes,height,width"."""
    try:
        text = path.read_text("ascii").strip()
        classes, height, width = (int(number) for number in text.split(","))
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(
            f"{path} should hold one line as 10572,112,112: identities, height, width; "
            "mend or remove it, it is not needed"
        ) from error
    return classes, (height, width)
