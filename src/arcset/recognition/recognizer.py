"""Images to unit embeddings, and whether two are the same."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from arcset.data import Reading
from arcset.data.of_run import reading_of
from arcset.errors import ArcsetError, InputError, OptionError, RunError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.embedder import Embedded, Embeddings, Progress
from arcset.recognition.inputs import as_sources, image_files, read_in_chunks
from arcset.recognition.run_model import RunModel
from arcset.recognition.verification import Verification, decide
from arcset.runs import Run

__all__ = ["Model", "Recognizer"]


class Model(Protocol):
    """What computes: arrays in, embeddings of any length out."""

    shape: tuple[int, ...]  # (C, H, W) of images, (F,) of vectors
    dim: int
    digest: str

    def run(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """(N, H, W[, C]) uint8 or (N, F) float32 to (N, D)."""


class Recognizer:
    """A trained embedding, ready for images: see `Recognizer.load`.

    Attributes:
        name: what people call it. dim: length of an embedding.
        digest: 64 hexadecimal digits, equal for models that give the same embeddings: a run and
            its own export are.
        thresholds: from cosines to decisions and probabilities, or None.
    """

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        reading: Reading | None,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.model = model
        self.name = name
        self.dim = model.dim
        self.digest = model.digest
        self.thresholds = thresholds
        self._reading = reading

    @classmethod
    def load(cls, run: Path | str, *, device: str = "auto") -> "Recognizer":
        """A run folder; with its thresholds, where threshold.json is in it."""
        opened = Run.open(run)
        file = opened.path / "threshold.json"
        return cls(
            RunModel(opened, device),
            name=opened.path.resolve().name,
            reading=reading_of(opened.config),
            thresholds=Thresholds.load(file) if file.exists() else None,
        )

    @property
    def reading(self) -> Reading:
        """How images become arrays; raises `OptionError` where the model takes none."""
        if self._reading is None:
            shape = " × ".join(str(side) for side in self.model.shape)
            raise OptionError(
                f"{self.name} takes arrays of {shape} numbers, and no images: embed those"
            )
        return self._reading

    def embed(self, images: Any, *, progress: Progress | None = None) -> Embeddings:
        """(N, D) float32 unit rows."""
        if self._reading is None or _is_float(images):
            return self._embed_arrays(images)
        sources = as_sources(images)
        rows = np.empty((len(sources), self.dim), np.float32)
        for chunk, results in read_in_chunks(sources, self.reading):
            for result in results:
                if isinstance(result, ArcsetError):
                    raise result
            rows[chunk] = self.unit(self.model.run(np.stack(results)))  # type: ignore[arg-type]
            if progress is not None:
                progress(chunk.stop, len(sources))
        return rows

    def embed_files(
        self, paths: Path | str | Iterable[Path | str], *, progress: Progress | None = None
    ) -> Embedded:
        """Image files, and all of those below folders; unreadable ones are listed."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        files: list[Path] = []
        for path in map(Path, given):
            files += image_files(path) if path.is_dir() else [path]
        kept: list[Path] = []
        parts: list[Embeddings] = []
        skipped: dict[Path, str] = {}
        for chunk, results in read_in_chunks(files, self.reading):
            arrays = []
            for path, result in zip(files[chunk], results, strict=True):
                if isinstance(result, ArcsetError):
                    skipped[path] = str(result).removeprefix(str(path)).lstrip(" :")
                else:
                    kept.append(path)
                    arrays.append(result)
            if arrays:
                parts.append(self.unit(self.model.run(np.stack(arrays))))
            if progress is not None:
                progress(chunk.stop, len(files))
        rows = np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)
        return Embedded(tuple(kept), rows, skipped)

    def verify(
        self, a: Any, b: Any, *, far: float | None = None, threshold: float | None = None
    ) -> Verification:
        """Whether two images show the same identity."""
        pair = self.embed([a, b])
        return decide(
            float(pair[0] @ pair[1]), self.thresholds, far=far, threshold=threshold, model=self.name
        )

    def unit(self, embeddings: npt.NDArray[np.float32]) -> Embeddings:
        """Rows of length 1."""
        lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise RunError(f"{self.name} gives embeddings that have no direction")
        return embeddings / lengths  # type: ignore[no-any-return]

    def _embed_arrays(self, samples: Any) -> Embeddings:
        rows = np.asarray(samples, dtype=np.float32)
        if rows.shape == self.model.shape:
            rows = rows[None]
        if rows.shape[1:] != self.model.shape:
            raise InputError(f"{self.name} takes {self.model.shape}, and these are {rows.shape}")
        return self.unit(self.model.run(rows))


def _is_float(images: Any) -> bool:
    return isinstance(images, np.ndarray) and images.dtype.kind == "f"
