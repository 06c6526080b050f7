"""What every gallery can do, wherever it keeps what it knows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from arcset.evaluation.calibration import Thresholds
from arcset.recognition.gallery.changes import Row
from arcset.recognition.gallery.index import Numbers
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.records import Sample, Subject
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

__all__ = ["Kept"]


class Kept(ABC):
    """Subjects and their samples, as each kind of gallery keeps them: see `Gallery`."""

    path: Path | Address
    dim: int
    recognizer: ImageEmbedder | None
    read_only: bool
    #: Whether images can be kept with their embeddings at all.
    can_hold_images: ClassVar[bool] = True

    @abstractmethod
    def close(self) -> None:
        """Let go of file or connection; the gallery is of no use afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Asking

    @abstractmethod
    def search(
        self, embeddings: Any, k: int = 5
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """The nearest subjects of each probe and their scores, falling.

        embeddings: (N, D) or (D,), of any length. Returns N tuples of names, and scores (N, K),
        where K is k, or the number of subjects if that is less. Scores are exact under the
        gallery's scoring; equal ones are ordered by the age of the subjects.
        """

    # Changing

    @abstractmethod
    def remove(self, name: str) -> int:
        """Remove a subject, and return how many samples it had.

        Raises `OptionError` where nobody is called so.
        """

    @abstractmethod
    def remove_sample(self, sample: int) -> None:
        """Remove one sample, likewise; with the last one of a subject goes the subject."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Give a subject another name, which nobody has."""

    @abstractmethod
    def merge(self, source: str, into: str) -> None:
        """Give all samples of the subject `source` to the subject `into`; `source` goes."""

    @abstractmethod
    def compact(self) -> None:
        """Give back the room that removed samples leave."""

    @abstractmethod
    def set_thresholds(self, thresholds: Thresholds | None) -> None:
        """Give the gallery a calibration of its own, or take it away."""

    @abstractmethod
    def set_model_path(self, path: Path | str) -> None:
        """Note where the model lies."""

    # Looking

    @abstractmethod
    def __len__(self) -> int:
        """How many subjects there are."""

    @abstractmethod
    def __contains__(self, name: object) -> bool: ...

    @property
    @abstractmethod
    def sample_count(self) -> int:
        """How many samples all subjects have together."""

    @property
    @abstractmethod
    def byte_count(self) -> int | None:
        """How many bytes the gallery takes on this machine's disk; None where it lies elsewhere."""

    @abstractmethod
    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first."""

    @abstractmethod
    def samples(self, name: str) -> tuple[Sample, ...]:
        """All samples of a subject; raises `OptionError` where nobody is called so."""

    @abstractmethod
    def image(self, sample: int) -> bytes | None:
        """The image of a sample as a file's bytes; None where it was not kept."""

    @abstractmethod
    def labelled(self) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        """A copy of all embeddings, (N, D), in the order of their numbers, and whose they are."""

    @abstractmethod
    def repeated(self, most: int) -> tuple[npt.NDArray[np.float32], Numbers]:
        """A copy of the embeddings, (n, D), of subjects with two samples or more, and numbers of
        these subjects, (n,). Where there are more than `most` of them, so many are drawn evenly.
        """

    # Moving

    @abstractmethod
    def export(self, path: Path | str, *, images: bool = True) -> int:
        """Write all samples to a Parquet file, and return how many: see `parquet_files`.

        Whoever has this file has names, embeddings and, unless `images` says no, kept images;
        removing somebody from the gallery does not remove them from it.
        """

    @abstractmethod
    def import_file(self, path: Path | str) -> tuple[int, ...]:
        """Add all samples of a file that `export` wrote, or none, and return their numbers.

        Samples keep the numbers that they have in the file if those are higher than any that this
        gallery has used. Raises `OptionError` for embeddings of another model, and `DataError` for
        another file.
        """

    @abstractmethod
    def migrate(self, recognizer: ImageEmbedder, progress: Progress | None = None) -> None:
        """Move to another model: embed all images anew, all of them or none.

        Raises `OptionError` where the images of some samples were not kept, and `DataError` for one
        that the model cannot embed.
        """

    # What `Gallery` is made of

    @property
    @abstractmethod
    def _settings(self) -> Settings:
        """What the gallery says of itself, as far as that was read."""

    @abstractmethod
    def together(self) -> AbstractContextManager[None]:
        """Around several questions that are to be answered from the newest state."""

    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """How many subjects there are, and samples; inside `together`."""

    @abstractmethod
    def _calibration(self) -> str | None:
        """The gallery's own calibration as JSON; inside `together`."""

    @abstractmethod
    def _embeddings_of(self, name: str) -> Embeddings:
        """(n, D) of one subject; raises `OptionError` where nobody is called so."""

    @abstractmethod
    def _reserve(self, count: int) -> None:
        """So many samples will come."""

    @abstractmethod
    def _add(self, names: Sequence[str], rows: Sequence[Row]) -> list[int]:
        """Enroll samples, all of them or none, and return their numbers."""
