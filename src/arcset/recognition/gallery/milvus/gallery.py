"""A gallery in Milvus."""

import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError
from arcset.recognition.gallery.base import Gallery
from arcset.recognition.gallery.milvus.about import About
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.milvus.beginning import make_gallery, read_gallery
from arcset.recognition.gallery.milvus.changing import Changes
from arcset.recognition.gallery.milvus.collections import Collections
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.milvus.rows import Rows
from arcset.recognition.gallery.milvus.searching import nearest_people
from arcset.recognition.gallery.samples import Row, Sample, Subject, as_time
from arcset.recognition.gallery.settings import Settings
from arcset.recognition.recognizer import Embeddings

__all__ = ["MilvusGallery"]

_YOUNG = 1.0  # seconds for which settings and sizes are used again


class _Moment(threading.local):
    """What one thread asked Milvus already, within one question to the gallery."""

    depth = 0
    sizes: tuple[int, int] | None = None


class MilvusGallery(Gallery):
    """A gallery in three collections of Milvus, see `collections`.

    Others who have it open, on whatever machine, see what a method has done when it returns, under
    the consistency `strong`. Milvus changes one row at a time and knows no transactions; how a
    subject of many samples is still enrolled, removed, renamed or merged at once is told in
    `subjects`, and `heal` is called whenever a gallery is opened to be changed. Differences:

    - Samples that are added to a subject who is enrolled already may be seen one by one.
    - Numbers of samples rise within one opened gallery, and have gaps between several.
    - Scores are exact, and with the index `flat` so are answers; see `searching` for others.
    - Images are not kept, and so it cannot move to another model.
    - What is removed is found by nobody, but stays on Milvus' disks until it compacts them.
    """

    path: Address
    can_hold_images = False
    _asked: float  # when settings were read
    _remembered: tuple[int, int] | None  # the sizes that there were then

    def __init__(
        self,
        connection: Connection,
        collections: Collections,
        settings: Settings,
    ) -> None:
        self.path, self.read_only = connection.address, False
        self._connection, self._collections = connection, collections
        self._about, self._known_settings = About(connection, collections), settings
        self._newest_about = About(connection.strongly(), collections)
        self.dim = settings.dim
        self._changes = Changes(connection, collections, self.dim)
        self._people = Rows(connection, collections, self.dim)
        self._moment = _Moment()
        self._asked, self._remembered = -math.inf, None

    @classmethod
    def _connect(cls, path: Address, *, read_only: bool) -> Self | None:
        if path.file is not None and not path.file.exists():
            return None
        connection = Connection(path)
        try:
            collections = Collections(connection)
            settings = read_gallery(connection, collections)
            if settings is None:
                connection.close()
                return None
            gallery = cls(connection, collections, settings)
            gallery.read_only = read_only
            if not read_only:
                gallery._changes.heal()
        except BaseException:
            connection.close()
            raise
        return gallery

    @classmethod
    def _create(cls, path: Address, settings: dict[str, str]) -> Self:
        connection = Connection(path)
        try:
            collections = Collections(connection)
            made = make_gallery(connection, collections, settings)
            return cls(connection, collections, made)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Let go of the connection; the gallery is of no use afterwards."""
        self._connection.close()

    # Asking

    def _search(
        self, probes: Embeddings, k: int
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """The nearest subjects of each probe and their scores: see `Gallery.search`.

        Where an approximate index finds fewer for a probe than for others, it has fewer names, and
        the rest of its scores is NaN.
        """
        with self.together():
            scoring, sizes = self._settings.scoring, self._sizes()
            found = nearest_people(
                self._people.samples, self._people.subjects, probes, k, scoring, sizes
            )
        scores = np.full((len(probes), max(len(names) for names, _ in found)), np.nan)
        for row, (names, values) in zip(scores, found, strict=True):
            row[: len(names)] = values
        return [tuple(names) for names, _ in found], scores

    # Changing

    def remove(self, name: str) -> int:
        """Remove a subject, and return how many samples it had.

        Raises `OptionError` where nobody is called so.
        """
        with self._changing():
            return self._changes.remove(self._changes.known(name))

    def remove_sample(self, sample: int) -> None:
        """Remove one sample; with the last one of a subject goes the subject."""
        with self._changing():
            owner = self._changes.owner(sample)
            self._changes.remove_sample(int(sample), owner)

    def _rename(self, old: str, new: str) -> None:
        with self._changing():
            self._changes.rename(self._changes.known(old), new)

    def _merge(self, source: str, into: str) -> None:
        with self._changing():
            self._changes.merge(self._changes.known(source), self._changes.known(into)[0])

    def compact(self) -> None:
        """Finish what others left, and let Milvus write anew what holds removed samples."""
        with self._changing():
            self._changes.heal()
            for name in self._collections:
                self._connection.call("flush", name)
                self._connection.call("compact", name)

    # Looking

    def __len__(self) -> int:
        return self._sizes()[0]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._people.subjects.find([name]))

    @property
    def sample_count(self) -> int:
        """How many samples there are, those included that are being enrolled or removed."""
        return self._sizes()[1]

    @property
    def byte_count(self) -> None:
        """None: Milvus does not tell."""

    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first; reads the number of every sample."""
        owners, counts = self._people.subjects.all_owners(), Counter[str]()
        for part in self._people.samples.parts(("id", "subject")):
            counts.update(owners[row["subject"]].name for row in part if row["subject"] in owners)
        people = {person.name: person for person in sorted(owners.values(), reverse=True)}
        return tuple(
            Subject(person.name, counts[person.name], as_time(person.added))
            for person in sorted(people.values())
            if counts[person.name]
        )

    def samples(self, name: str) -> tuple[Sample, ...]:
        """All samples of a subject; raises `OptionError` where nobody is called so."""
        return tuple(
            Sample(int(row["id"]), row["source"], row["digest"], as_time(row["added"]), False)
            for row in self._people.samples.told(self._people.family(name))
        )

    def image(self, sample: int) -> None:
        """None, as images are not kept; raises `OptionError` for a sample that is not there."""
        self._people.owner(sample)

    def labelled(self) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        """A copy of all embeddings, (N, D), in the order of their numbers, and whose they are."""
        owners = self._people.subjects.all_owners()
        rows, names = [np.empty((0, self.dim), np.float32)], []
        for part in self._people.samples.parts(("id", "subject", "embedding")):
            kept = [row for row in part if row["subject"] in owners]
            rows.append(self._people.samples.vectors(kept))
            names += [owners[row["subject"]].name for row in kept]
        return np.concatenate(rows), tuple(names)

    def repeated(self, most: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Embeddings of subjects with two samples or more: see `Gallery`."""
        owners, counts = self._people.subjects.all_owners(), Counter[int]()
        for part in self._people.samples.parts(("id", "subject")):
            counts.update(owners[row["subject"]].number for row in part if row["subject"] in owners)
        several = sorted(number for number, count in counts.items() if count > 1)
        if len(several) > most:
            places = np.linspace(0, len(several) - 1, most).round().astype(int)
            several = [several[place] for place in places]
        families = self._people.subjects.families(several)
        whose, vectors = self._people.samples.embeddings(sorted(families))
        return vectors, np.array([families[number] for number in whose], np.int64)

    # Moving

    def _rows(self, images: bool) -> Iterator[Sequence[Row]]:
        owners = self._people.subjects.all_owners()
        for part in self._people.samples.parts():
            kept = [row for row in part if row["subject"] in owners]
            vectors = self._people.samples.vectors(kept).astype("<f4", copy=False)
            rows = [
                Row(
                    owners[row["subject"]].name,
                    vector.tobytes(),
                    row["source"],
                    None if row["digest"] is None else bytes.fromhex(row["digest"]),
                    None,
                    int(row["added"]),
                    int(row["id"]),
                )
                for row, vector in zip(kept, vectors, strict=True)
            ]
            if rows:
                yield rows

    # What `Gallery` is made of

    @property
    def _settings(self) -> Settings:
        return self._known_settings

    @contextmanager
    def together(self) -> Iterator[None]:
        """Settings are read at the beginning, and sizes once.

        Where the address asks for less than strong consistency, both may be a second old.
        """
        moment = self._moment
        if not moment.depth:
            now, strong = time.monotonic(), self.path.consistency == "strong"
            if strong or now - self._asked > _YOUNG:
                self._refresh(self._about)
                self._remembered = None
                self._asked = now
            moment.sizes = None if strong else self._remembered
        moment.depth += 1
        try:
            yield
        finally:
            moment.depth -= 1

    def _refresh(self, about: About) -> None:
        settings = about.read()
        if settings is None:
            raise DataError(f"{self.path} is gone: another process took it away")
        self._known_settings = settings

    def _sizes(self) -> tuple[int, int]:
        if self._moment.sizes is None or not self._moment.depth:
            sizes = self._people.subjects.count(), self._people.samples.count()
            self._moment.sizes = self._remembered = sizes
        return self._moment.sizes

    def _calibration(self) -> str | None:
        for about in (self._about, self._newest_about, self._newest_about):
            found = about.calibration(self._settings.calibrated)
            if found is not None:
                return found
            self._refresh(self._newest_about)  # somebody may put another in its place
        raise DataError(f"{self.path} is damaged: its calibration is not whole")

    def _embeddings_of(self, name: str) -> Embeddings:
        return self._people.samples.embeddings(self._people.family(name))[1]

    def _add(self, batches: Iterable[Sequence[Row]], **settings: str) -> list[int]:
        with self._changing():
            if settings:
                self._newest_about.write(**settings)
                self._refresh(self._newest_about)
            made: list[int] = []
            for rows in batches:
                made += self._changes.enroll([row.name for row in rows], rows)
            return made

    # Within

    def _write(self, **values: str | None) -> None:
        with self._changing():
            if "thresholds" in values:
                text = values.pop("thresholds")
                values.pop("calibrated")
                self._newest_about.set_calibration(text)
            self._newest_about.write(**values)
            self._refresh(self._newest_about)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around what changes the gallery: what is remembered of it is not true any more."""
        if self.read_only:
            raise DataError(f"{self.path} was opened for reading only; nothing was changed")
        try:
            yield
        finally:
            self._asked = -math.inf
