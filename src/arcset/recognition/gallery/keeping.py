"""What a gallery keeps: subjects and their samples, enrolled, changed and listed."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.embedder import Embedder, Embeddings, Progress
from arcset.recognition.gallery.beginning import begin
from arcset.recognition.gallery.changes import (
    add_subject,
    move_samples,
    overwrite_samples,
    overwrite_subject,
)
from arcset.recognition.gallery.compacting import compact, finish_removal
from arcset.recognition.gallery.database import Database, create_database
from arcset.recognition.gallery.enrolling import enroll_rows, make_rows
from arcset.recognition.gallery.listing import find_image, list_samples, list_subjects
from arcset.recognition.gallery.moving import import_samples, migrate
from arcset.recognition.gallery.names import check_name
from arcset.recognition.gallery.parquet_files import write_gallery
from arcset.recognition.gallery.records import Sample, Subject
from arcset.recognition.gallery.schema import NOBODY
from arcset.recognition.gallery.scoring import Scoring
from arcset.recognition.gallery.settings import first_settings
from arcset.recognition.gallery.store import Store
from arcset.recognition.gallery.vectors import unit_rows
from arcset.recognition.inputs import as_sources

__all__ = ["Keeping"]

_BATCH = 4096  # samples per transaction of `enroll_many`


class Keeping:
    """All of a gallery but its answers: see `Gallery`."""

    def __init__(self, database: Database, recognizer: Embedder | None) -> None:
        self.path = database.path
        self.recognizer = recognizer
        self.read_only = database.read_only
        self._store = Store(database)
        self._lock = threading.RLock()
        self.dim, self._epoch = self._store.settings.dim, self._store.settings.epoch

    @classmethod
    def open(
        cls,
        path: Path | str,
        recognizer: Embedder | None = None,
        *,
        dim: int | None = None,
        scoring: str | None = None,
        keep_images: bool | None = None,
        read_only: bool = False,
    ) -> Self:
        """Open a gallery; one that does not exist is made.

        Parameters:
            path: its file.
            recognizer: what makes embeddings of images. A gallery belongs to one model.
            dim: length of embeddings, for a new gallery without a recognizer.
            scoring: how a subject of several samples is scored: by the best of its cosines (`max`,
                if nobody says otherwise), by their `mean`, or by the mean of the best few, as
                `top-3`. Kept in the file.
            keep_images: whether images are kept with their embeddings, so that the gallery can
                move to another model. Kept in the file.
            read_only: to change nothing.

        Raises `OptionError` for another model or dimension than the gallery's, and where a new one
        is to be made of neither; `DataError` for a file that is damaged or no gallery.
        """
        path = Path(path)
        word = None if scoring is None else Scoring.of(scoring).word
        if not path.exists():
            if read_only:
                raise DataError(f"{path} does not exist")
            create_database(path, first_settings(path, recognizer, dim, word, keep_images))
        database = Database(path, read_only=read_only)
        try:
            gallery = cls(database, recognizer)
            begin(gallery._store, recognizer, dim, word, keep_images)
        except BaseException:
            database.close()
            raise
        return gallery

    def close(self) -> None:
        """Let go of the file; the gallery is of no use afterwards."""
        with self._lock:
            self._store.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Enrolling

    def enroll(
        self, name: str, images: Any = None, *, embeddings: Any = None, sources: Any = None
    ) -> tuple[int, ...]:
        """Add samples to a subject, new or known, and return their numbers.

        Parameters:
            name: 1 to 256 characters.
            images: one or many, as the recognizer takes them.
            embeddings: (N, D) or (D,) instead; or those of the images, where they are known.
            sources: where they come from, a text each; by default the images' paths.

        They are all on the disk when this returns, or none is. Raises `OptionError` for what is no
        name, and `InputError` or `DataError` for what are no embeddings or images.
        """
        check_name(name)
        given = None if images is None else as_sources(images)
        vectors = self._embedded(given, embeddings)
        rows = make_rows(vectors, given, sources, self.keep_images)
        with self._lock, self._store.changing():  # as `_changing`, and quicker
            self._check_open()
            return tuple(enroll_rows(self._store, [name] * len(rows), rows))

    def enroll_many(
        self,
        names: Sequence[str],
        images: Any = None,
        *,
        embeddings: Any = None,
        sources: Any = None,
        progress: Progress | None = None,
    ) -> tuple[int, ...]:
        """Add one sample for each of the names, as `enroll` does, in batches of some thousands.

        A batch is on the disk whole or not at all. `progress` is told after each.
        """
        names = [check_name(name) for name in names]
        given = None if images is None else as_sources(images)
        if embeddings is not None and (len(names) or len(embeddings)):
            embeddings = unit_rows(embeddings, self.dim)  # all are checked before the first is in
        for what, items in (("images", given), ("embeddings", embeddings), ("sources", sources)):
            if items is not None and len(items) != len(names):
                raise InputError(f"there are {len(names):,} names, but {len(items):,} {what}")
        with self._lock:  # room for all at once, rather than for twice as many again and again
            self._store.index.reserve(len(self._store.index) + len(names))
        samples: list[int] = []
        for start in range(0, len(names), _BATCH):
            part = slice(start, start + _BATCH)
            some = None if given is None else given[part]
            vectors = self._embedded(some, None) if embeddings is None else embeddings[part]
            places = None if sources is None else sources[part]
            rows = make_rows(vectors, some, places, self.keep_images)
            with self._changing():
                samples += enroll_rows(self._store, names[part], rows)
            if progress is not None:
                progress(len(samples), len(names))
        return tuple(samples)

    # Changing

    def remove(self, name: str) -> int:
        """Remove a subject, and return how many samples it had.

        Name, embeddings and images are overwritten in the gallery's files when this returns.
        Raises `OptionError` where nobody is called so, and `DataError` where another process keeps
        the bytes from being overwritten.
        """
        with self._lock:
            with self._changing():
                subject = self._known(name)
                samples = self._store.samples_of(subject)
                overwrite_samples(self._store, samples)
                overwrite_subject(self._store, subject)
            finish_removal(self._store, f"{name!r} is")
        return len(samples)

    def remove_sample(self, sample: int) -> None:
        """Remove one sample, likewise; with the last one of a subject goes the subject."""
        with self._lock:
            with self._changing():
                subject = self._owner(sample)
                overwrite_samples(self._store, [int(sample)])
                if self._store.samples_of(subject) == [sample]:
                    overwrite_subject(self._store, subject)
            finish_removal(self._store, f"sample {sample} is")

    def rename(self, old: str, new: str) -> None:
        """Give a subject another name, which nobody has; the old one is overwritten."""
        check_name(new)
        if old == new:
            return
        with self._lock:
            with self._changing():
                subject = self._known(old)
                if self._store.number(new) is not None:
                    raise OptionError(
                        f"somebody called {new!r} is enrolled already: merge {old!r} into that"
                    )
                (added,) = self._store.database.execute(
                    "SELECT added FROM subjects WHERE id = ?", (subject + NOBODY,)
                ).fetchone()
                # A name of another length would make SQLite move others, see `schema`.
                self._move(subject, add_subject(self._store, new, added))
            finish_removal(self._store, f"the name {old!r} is")

    def merge(self, source: str, into: str) -> None:
        """Give all samples of the subject `source` to the subject `into`; `source` goes."""
        if source == into:
            raise OptionError(f"{source!r} cannot be merged into itself")
        with self._lock:
            with self._changing():
                self._move(self._known(source), self._known(into))
            finish_removal(self._store, f"the name {source!r} is")

    def compact(self) -> None:
        """Write the file anew, without the room that removed samples leave.

        A gallery does so by itself when more samples were removed than are left.
        """
        with self._lock:
            compact(self._store)

    # Looking

    def __len__(self) -> int:
        with self._following():
            return self._store.index.subject_count

    def __contains__(self, name: object) -> bool:
        with self._reading():
            return isinstance(name, str) and self._store.number(name) is not None

    @property
    def sample_count(self) -> int:
        """How many samples all subjects have together."""
        with self._following():
            return len(self._store.index)

    @property
    def scoring(self) -> str:
        """How a subject of several samples is scored: `max`, `mean` or `top-K`."""
        return self._store.settings.scoring.word

    @property
    def keep_images(self) -> bool:
        """Whether images are kept with their embeddings."""
        return self._store.settings.keep_images

    @property
    def model_name(self) -> str:
        """What people call the model that made the embeddings; empty where nobody said."""
        return self._store.settings.model_name

    @property
    def model_digest(self) -> str:
        """What tells that model from all others; empty where nobody said."""
        return self._store.settings.model_digest

    @property
    def model_path(self) -> str | None:
        """Where that model was last found, if anybody noted it with `set_model_path`."""
        return self._store.settings.model_path

    def set_model_path(self, path: Path | str) -> None:
        """Note where the model lies."""
        with self._changing():
            self._store.change_settings(model_path=str(path))

    def subjects(self) -> tuple[Subject, ...]:
        """All subjects, the first enrolled first."""
        with self._reading():
            return list_subjects(self._store)

    def samples(self, name: str) -> tuple[Sample, ...]:
        """All samples of a subject; raises `OptionError` where nobody is called so."""
        with self._reading():
            return list_samples(self._store, self._known(name))

    def image(self, sample: int) -> bytes | None:
        """The image of a sample as a file's bytes; None where it was not kept."""
        with self._reading():
            self._owner(sample)
            return find_image(self._store, int(sample))

    # Moving

    def export(self, path: Path | str) -> int:
        """Write all samples to a Parquet file, and return how many: see `parquet_files`.

        Whoever has this file has names, embeddings and kept images; removing somebody from the
        gallery does not remove them from it.
        """
        with self._reading():
            return write_gallery(self._store, Path(path))

    def import_file(self, path: Path | str) -> tuple[int, ...]:
        """Add all samples of a file that `export` wrote, or none, and return their numbers.

        Samples keep the numbers that they have in the file if those are higher than any that this
        gallery has used. Raises `OptionError` for embeddings of another model, and `DataError` for
        another file.
        """
        with self._lock:
            self._check_open()
            return import_samples(self._store, path)

    def migrate(self, recognizer: Embedder, progress: Progress | None = None) -> None:
        """Move to another model: embed all images anew, all of them or none.

        Other processes can read, but not write, for so long; they have to open the gallery again
        when it is done. A calibration of its own is lost. Raises `OptionError` where the images of
        some samples were not kept, and `DataError` for one that the model cannot embed.
        """
        with self._lock:
            self._check_open()
            migrate(self._store, recognizer, progress)
            self.recognizer = recognizer
            self.dim, self._epoch = self._store.settings.dim, self._store.settings.epoch

    # Within

    @contextmanager
    def _following(self) -> Iterator[None]:
        """One thread at a time, in the newest state."""
        with self._lock:
            self._store.follow()
            self._check_open()
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One thread at a time, in one state of the file for all that is asked."""
        with self._lock, self._store.database.reading():
            self._store.refresh()
            self._check_open()
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One thread at a time, in a transaction."""
        with self._lock, self._store.changing():
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._store.settings.epoch != self._epoch:
            raise DataError(
                f"{self.path} was moved to the model {self.model_name!r} by another process: open"
                " it again, with that model"
            )

    def _known(self, name: str) -> int:
        subject = self._store.number(name)
        if subject is None:
            raise OptionError(f"nobody called {name!r} is enrolled in {self.path}")
        return subject

    def _owner(self, sample: int) -> int:
        fits = isinstance(sample, int | np.integer) and 0 < sample < 2**63
        subject = self._store.subject_of(int(sample)) if fits else None
        if subject is None:
            raise OptionError(f"there is no sample {sample!r} in {self.path}")
        return subject

    def _move(self, source: int, into: int) -> None:
        move_samples(self._store, self._store.samples_of(source), into)
        overwrite_subject(self._store, source)

    def _embedded(self, images: Sequence[Any] | None, embeddings: Any) -> Embeddings:
        if embeddings is not None:
            return unit_rows(embeddings, self.dim)
        if images is None:
            raise OptionError("neither images nor embeddings are given")
        if self.recognizer is None:
            raise OptionError(
                f"{self.path} was opened without a model, which images need: open it with one, or"
                " give embeddings"
            )
        return unit_rows(self.recognizer.embed(images), self.dim)
