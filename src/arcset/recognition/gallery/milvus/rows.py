"""The rows of subjects and samples together."""

import numpy as np

from arcset.errors import OptionError
from arcset.recognition.gallery.milvus.collections import Collections
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.milvus.samples import Samples
from arcset.recognition.gallery.milvus.subjects import Person, Subjects

__all__ = ["Rows"]


class Rows:
    """Who is enrolled, and whose samples are whose.

    Attributes:
        subjects, samples: the rows of each.
    """

    def __init__(self, connection: Connection, collections: Collections, dim: int) -> None:
        self._address = connection.address
        self.subjects = Subjects(connection, collections)
        self.samples = Samples(connection, collections, dim)

    def known(self, name: str) -> list[Person]:
        """The subject of a name, see `Subjects.find`; raises `OptionError` where there is none."""
        found = self.subjects.find([name]) if isinstance(name, str) else {}
        if not found:
            raise OptionError(f"nobody called {name!r} is enrolled in {self._address}")
        return found[name]

    def family(self, name: str) -> list[int]:
        """All numbers whose samples are those of a subject; raises as `known` does."""
        return sorted(self.subjects.families([one.number for one in self.known(name)]))

    def owner(self, sample: int) -> Person:
        """Whose a sample is; raises `OptionError` where there is no such sample."""
        fits = isinstance(sample, int | np.integer) and 0 < sample < 2**63
        subject = self.samples.subject_of(int(sample)) if fits else None
        owner = None if subject is None else self.subjects.owners([subject]).get(subject)
        if owner is None:
            raise OptionError(f"there is no sample {sample!r} in {self._address}")
        return owner
