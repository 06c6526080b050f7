"""Embeddings of labelled samples, in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import InputError

__all__ = ["EmbeddingSet"]


@dataclass(frozen=True, eq=False)
class EmbeddingSet:
    """Embeddings (N, D) of labelled samples.

    labels (N,) are the places of the samples' identities in `class_names`, which are sorted as
    text, so that two files about the same identities number them alike. paths: where the samples
    came from, or None. trained_on: identities that training knew, or None where nobody says.
    """

    embeddings: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None = None
    trained_on: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        embeddings: npt.NDArray[Any],
        names: Sequence[object],
        paths: Sequence[str] | None = None,
        trained_on: Sequence[str] | None = None,
    ) -> "EmbeddingSet":
        """From one name of an identity per row.

        >>> found = EmbeddingSet.of(np.eye(3), ["b", "a", "b"])
        >>> found.class_names, found.labels.tolist()
        (('a', 'b'), [1, 0, 1])
        """
        matrix = np.asarray(embeddings)
        if matrix.dtype.kind in "iu":
            matrix = matrix.astype(np.float64)
        if matrix.ndim != 2 or matrix.dtype.kind != "f" or 0 in matrix.shape:
            raise InputError(
                f"embeddings have shape {matrix.shape} and type {matrix.dtype}, expected real"
                " numbers in rows, (N, D)"
            )
        for what, items in (("labels", names), ("paths", paths)):
            if items is not None and len(items) != len(matrix):
                raise InputError(f"there are {len(matrix)} embeddings, but {len(items)} {what}")
        distinct, labels = np.unique([str(name) for name in names], return_inverse=True)
        return cls(
            matrix,
            labels.astype(np.int64).reshape(-1),
            tuple(distinct.tolist()),
            None if paths is None else tuple(paths),
            None if trained_on is None else tuple(trained_on),
        )

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def names(self) -> npt.NDArray[np.str_]:
        """The identity of each row, as text (N,)."""
        return np.array(self.class_names)[self.labels]

    def keep(self, identities: Sequence[str]) -> "EmbeddingSet":
        """The rows of some identities only; raises `InputError` if none of them is here."""
        kept = np.isin(self.names, list(identities))
        if not kept.any():
            raise InputError(f"none of the {len(identities)} identities asked for is among these")
        paths = None
        if self.paths is not None:
            paths = [path for path, wanted in zip(self.paths, kept, strict=True) if wanted]
        return EmbeddingSet.of(
            self.embeddings[kept], self.names[kept].tolist(), paths, self.trained_on
        )
