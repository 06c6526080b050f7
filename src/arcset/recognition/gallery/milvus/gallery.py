"""A gallery in Milvus."""

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcset.checks import check_count
from arcset.errors import DataError, OptionError
from arcset.evaluation.calibration import Thresholds
from arcset.recognition.gallery.beginning import changes_at_opening
from arcset.recognition.gallery.changes import Row
from arcset.recognition.gallery.gallery import Gallery
from arcset.recognition.gallery.milvus.about import About
from arcset.recognition.gallery.milvus.address import Address
from arcset.recognition.gallery.milvus.beginning import make_gallery, read_gallery
from arcset.recognition.gallery.milvus.changing import Changes
from arcset.recognition.gallery.milvus.collections import Collections
from arcset.recognition.gallery.milvus.connection import Connection
from arcset.recognition.gallery.milvus.moving import export_samples, import_samples
from arcset.recognition.gallery.milvus.rows import Rows
from arcset.recognition.gallery.milvus.searching import nearest_people
from arcset.recognition.gallery.names import check_name
from arcset.recognition.gallery.records import Sample, Subject, as_time
from arcset.recognition.gallery.settings import Settings, first_settings
from arcset.recognition.gallery.vectors import unit_rows
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Progress

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
        recognizer: ImageEmbedder | None,
    ) -> None:
        self.path = connection.address
        self.recognizer, self.read_only = recognizer, False
        self._connection, self._collections = connection, collections
        self._about, self._known_settings = About(connection, collections), settings
        self._newest_about = About(connection.strongly(), collections)
        self.dim = settings.dim
        self._changes = Changes(connection, collections, self.dim)
        self._rows = Rows(connection, collections, self.dim)
        self._moment = _Moment()
        self._asked, self._remembered = -math.inf, None

    @classmethod
    def begin(
        cls,
        address: Address,
        recognizer: ImageEmbedder | None,
        dim: int | None,
        scoring: str | None,
        keep_images: bool | None,
        read_only: bool,
    ) -> Self:
        """Open the gallery at an address, made if there is none: see `Gallery.open`."""
        if keep_images:
            raise OptionError(
                f"{address} cannot keep images, which Milvus has no room for: keep the files, or a"
                " gallery in a file"
            )
        asked = (address, recognizer, dim, scoring, keep_images)
        if address.file is not None and not address.file.exists():
            if read_only:
                raise DataError(f"{address} does not exist")
            first_settings(*asked)  # or refuses, before there is a folder
        connection = Connection(address)
        try:
            collections = Collections(connection)
            settings = read_gallery(connection, collections)
            if settings is None:
                if read_only:
                    raise DataError(f"{address} does not exist")
                settings = make_gallery(connection, collections, first_settings(*asked))
            settings.check_fits(recognizer, dim, address)
            gallery = cls(connection, collections, settings, recognizer)
            changes = changes_at_opening(
                settings,
                recognizer,
                scoring,
                keep_images,
                empty=not gallery._changes.samples.count(),
                path=address,
            )
            if read_only:
                changes.pop("model", None)
                changes.pop("digest", None)
            gallery.read_only = read_only
            if changes:
                gallery._write(**changes)
                gallery._settings.check_fits(recognizer, dim, address)  # or others were quicker
            if not read_only:
                gallery._changes.heal()
        except BaseException:
            connection.close()
            raise
        return gallery

    def close(self) -> None:
        """Let go of the connection; the gallery is of no use afterwards."""
        self._connection.close()

    # Asking

    def search(
        self, embeddings: Any, k: int = 5
    ) -> tuple[list[tuple[str, ...]], npt.NDArray[np.float64]]:
        """The nearest subjects of each probe and their scores: see `Kept`.

        Where an approximate index finds fewer for a probe than for others, it has fewer names, and
        the rest of its scores is NaN.
        """
        check_count("k", k)
        probes = unit_rows(embeddings, self.dim)
        with self.together():
            scoring, sizes = self._settings.scoring, self._sizes()
            found = nearest_people(
                self._rows.samples, self._rows.subjects, probes, int(k), scoring, sizes
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

    def rename(self, old: str, new: str) -> None:
        """Give a subject another name, which nobody has."""
        check_name(new)
        if old == new:
            return
        with self._changing():
            self._changes.rename(self._changes.known(old), new)

    def merge(self, source: str, into: str) -> None:
        """Give all samples of the subject `source` to the subject `into`; `source` goes."""
        if source == into:
            raise OptionError(f"{source!r} cannot be merged into itself")
        with self._changing():
            self._changes.merge(self._changes.known(source), self._changes.known(into)[0])

    def compact(self) -> None:
        """Finish what others left, and let Milvus write anew what holds removed samples."""
        with self._changing():
            self._changes.heal()
            for name in self._collections:
                self._connection.call("flush", name)
                self._connection.call("compact", name)

    def set_thresholds(self, thresholds: Thresholds | None) -> None:
        """Give the gallery a calibration of its own, or take it away."""
        with self._changing():
            self._newest_about.set_calibration(thresholds)

    def set_model_path(self, path: Path | str) -> None:
        """Note where the model lies."""
        self._write(model_path=str(path))

    # Looking

    def __len__(self) -> int:
        return self._rows.subjects.count()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._rows.subjects.find([name]))

    @property
    def sample_count(self) -> int:
        """How many samples there are, those included that are being enrolled or removed."""
        return self._rows.samples.count()

    @property
    def byte_count(self) -> None:
        """None: Milvus does not tell."""

    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first; reads the number of every sample."""
        owners, counts = self._rows.subjects.all_owners(), Counter[str]()
        for part in self._rows.samples.parts(("id", "subject")):
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
            for row in self._rows.samples.told(self._rows.family(name))
        )

    def image(self, sample: int) -> None:
        """None, as images are not kept; raises `OptionError` for a sample that is not there."""
        self._rows.owner(sample)

    def labelled(self) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        """A copy of all embeddings, (N, D), in the order of their numbers, and whose they are."""
        owners = self._rows.subjects.all_owners()
        rows, names = [np.empty((0, self.dim), np.float32)], []
        for part in self._rows.samples.parts(("id", "subject", "embedding")):
            kept = [row for row in part if row["subject"] in owners]
            rows.append(self._rows.samples.vectors(kept))
            names += [owners[row["subject"]].name for row in kept]
        return np.concatenate(rows), tuple(names)

    def repeated(self, most: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Embeddings of subjects with two samples or more: see `Kept`."""
        owners, counts = self._rows.subjects.all_owners(), Counter[int]()
        for part in self._rows.samples.parts(("id", "subject")):
            counts.update(owners[row["subject"]].number for row in part if row["subject"] in owners)
        several = sorted(number for number, count in counts.items() if count > 1)
        if len(several) > most:
            places = np.linspace(0, len(several) - 1, most).round().astype(int)
            several = [several[place] for place in places]
        families = self._rows.subjects.families(several)
        whose, vectors = self._rows.samples.embeddings(sorted(families))
        return vectors, np.array([families[number] for number in whose], np.int64)

    # Moving

    def export(self, path: Path | str, *, images: bool = True) -> int:
        """Write all samples to a Parquet file, and return how many: see `Kept`."""
        with self.together():
            return export_samples(
                self._rows.samples, self._rows.subjects, self._settings, Path(path)
            )

    def import_file(self, path: Path | str) -> tuple[int, ...]:
        """Add all samples of a file that `export` wrote, and return their numbers: see `Kept`.

        The whole file is read before the first sample is written. New subjects are there when all
        is; samples for subjects who are enrolled already come as they are written.
        """
        with self._changing():
            self._refresh(self._newest_about)
            found = import_samples(
                self._changes, self._newest_about, self._settings, path, self.path
            )
            self._refresh(self._newest_about)
        return found

    def migrate(self, recognizer: ImageEmbedder, progress: Progress | None = None) -> None:
        """Refused with `OptionError`: there are no images to embed anew."""
        raise OptionError(
            f"{self.path} keeps no images to embed anew: enroll them again, in a gallery for"
            f" {recognizer.name}"
        )

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
            sizes = self._rows.subjects.count(), self._rows.samples.count()
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
        return self._rows.samples.embeddings(self._rows.family(name))[1]

    def _reserve(self, count: int) -> None:
        with self._changing():
            if count:
                self._changes.sample_numbers.reserve(count)

    def _add(self, names: Sequence[str], rows: Sequence[Row]) -> list[int]:
        with self._changing():
            return self._changes.enroll(names, rows)

    # Within

    def _write(self, **values: str | None) -> None:
        with self._changing():
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
