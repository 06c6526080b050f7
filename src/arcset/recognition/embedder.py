"""What a gallery needs of whatever makes its embeddings."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from arcset.evaluation.calibration import Thresholds
from arcset.recognition.inputs import ImageFile

if TYPE_CHECKING:  # OpenCV is an extra
    from arcset.recognition.faces import Face

__all__ = ["Embedded", "Embedder", "Embeddings", "Progress"]

#: (N, D), unit rows.
Embeddings = npt.NDArray[np.float32]

#: Told how many images are done, of how many.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Embedded:
    """The embeddings of image files.

    Fields:
        paths: the files that could be read, (N,); where all faces of photos are embedded, as often
            as there are faces in them.
        embeddings: (N, D) float32, unit rows, in the order of `paths`.
        skipped: the files that could not be, and why, in half a sentence.
        notes: what people should know of some of the files, in a sentence each.
        faces: where in its photo each face is, (N,); empty where whole images are embedded.
        faceless: photos that show no face, or none that is large enough, in words.
    """

    paths: tuple[ImageFile, ...]
    embeddings: Embeddings
    skipped: Mapping[ImageFile, str]
    notes: Mapping[ImageFile, str] = field(default_factory=dict)
    faces: "tuple[Face, ...]" = ()
    faceless: Mapping[ImageFile, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.paths)

    def __str__(self) -> str:
        left = f", {len(self.skipped):,} skipped" if self.skipped else ""
        return f"{len(self):,} images embedded in {self.embeddings.shape[1]} dimensions{left}"

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "paths": [str(path) for path in self.paths],
            "embeddings": self.embeddings.tolist(),
            "skipped": {str(path): why for path, why in self.skipped.items()},
        }


class Embedder(Protocol):
    """Images to unit embeddings, always by the same model; a `Recognizer` is one."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def dim(self) -> int:
        """D, the length of an embedding."""

    @property
    def digest(self) -> str:
        """64 hexadecimal digits: equal for models that give the same embeddings."""

    @property
    def thresholds(self) -> Thresholds | None:
        """From cosines to decisions and probabilities; None where nobody calibrated the model."""

    def embed(self, images: Any, *, progress: Progress | None = None) -> Embeddings:
        """One image or many, as paths, PIL images or arrays, to (N, D) unit rows.

        Raises `DataError` or `InputError` for the first that cannot be read.
        """

    def embed_files(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        *,
        progress: Progress | None = None,
    ) -> Embedded:
        """Image files, and all of those below folders; unreadable ones are listed."""

    def embed_all(
        self,
        paths: ImageFile | str | Iterable[ImageFile | str],
        *,
        progress: Progress | None = None,
    ) -> Embedded:
        """The same, with every face of a photo where faces are embedded."""
