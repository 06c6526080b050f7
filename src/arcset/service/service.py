"""What all routes share: the gallery, the model, the limits, and threads that do the work."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from arcset.errors import ArcsetError, OptionError
from arcset.recognition.decisions import Match, WorkingPoint
from arcset.recognition.gallery import Gallery, Subject
from arcset.recognition.recognizer import ImageEmbedder
from arcset.service.batching import Batcher, Job, settle
from arcset.service.decoding import Decoded, Decoder, is_large
from arcset.service.errors import ApiError
from arcset.service.keys import Keys
from arcset.service.metrics import Metrics
from arcset.service.settings import ServiceSettings
from arcset.text import sentence

#: What is said where there is no threshold.
UNCALIBRATED = (
    "the model has no calibrated threshold yet: calibrate it, or the gallery, or name a threshold"
)

_DECODERS = 2  # threads; PIL decodes without holding the interpreter's lock
# Images that go through the network together. While one batch is computed, the next is read: with
# fewer to a batch than there are clients, neither side waits.
_BATCH = 16
_MOST_FACES = 4096  # of one request: each is held in memory until the network has seen it


class Ask(NamedTuple):
    """The options of an identification; requests with the same are answered together."""

    fpir: float | None
    threshold: float | None
    candidates: int


class Service:
    """One gallery, served.

    Attributes:
        gallery, recognizer, settings, keys: as given.
        views: what shows runs, or None.
        stopping: whether it was told to stop, and refuses new requests.
        in_flight, held: requests that are being answered, and bytes of theirs in memory.
    """

    def __init__(
        self, gallery: Gallery, settings: ServiceSettings, keys: Keys, views: Any = None
    ) -> None:
        if gallery.recognizer is None:
            raise OptionError(f"{gallery.path} was opened without a model, and cannot embed images")
        self.gallery, self.settings, self.keys, self.views = gallery, settings, keys, views
        self.recognizer: ImageEmbedder = gallery.recognizer
        self.read_only = settings.read_only or gallery.read_only
        self.stopping = False
        self.in_flight = self.held = 0
        self.decoder = Decoder(self.recognizer, settings.max_pixels)  # or refuses, before threads
        self.subjects = SubjectList(gallery)
        self._changing = threading.Lock()  # around "is it there?" and "then change it"
        self._file = self._file_now()
        # For thumbnails, whose images may be large: the threads that serve all others do not wait.
        self.drawing = ThreadPoolExecutor(_DECODERS, "draw")
        self._decoders = ThreadPoolExecutor(_DECODERS, "decode")
        self._large_decoder = ThreadPoolExecutor(1, "decode large")
        self.metrics = Metrics(gallery, self.recognizer, lambda: len(self._batcher))
        self._batcher = Batcher(
            self.decoder.embed,
            self._finish,
            most=_BATCH,
            workers=settings.workers,
            observe=self.metrics.batches.observe,
        )

    @contextlib.contextmanager
    def changing(self) -> Iterator[Gallery]:
        """The gallery for one change at a time, and only to the file that is there."""
        with self._changing:
            self.check_file()
            yield self.gallery

    def check_file(self) -> None:
        """Raises `ApiError` where the gallery's file is gone, or another is in its place.

        What is written then would be lost with the old file.
        """
        if self._file_now() != self._file:
            message = "The gallery's file was replaced while it is served: start the service anew."
            raise ApiError("gallery_unavailable", message)

    def _file_now(self) -> tuple[int, int] | None:
        path = self.gallery.path
        if not isinstance(path, Path):
            return None
        try:
            status = path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def point(self, fpir: float | None, threshold: float | None = None) -> WorkingPoint | None:
        """Where "known" begins now; None where that is not known, and no rate is asked for.

        Raises `ApiError`: no_calibration.
        """
        if fpir is not None:
            self.check_calibrated()
        return self.gallery.point_for(fpir, threshold)

    def check_calibrated(self) -> None:
        """Raises `ApiError`: no_calibration, for a gallery without a calibrated threshold."""
        if self.gallery.thresholds is None:
            raise ApiError("no_calibration", sentence(UNCALIBRATED))

    def is_enrolled(self, name: str) -> bool:
        """Whether there is a subject of this name."""
        return name in self.gallery

    # Images

    async def embed(
        self, images: Sequence[bytes], scope: Scope
    ) -> tuple[npt.NDArray[np.float32], list[Decoded]]:
        """The embedding of each image, or of the main face of each photo: (N, D); and the faces.

        Raises the `ApiError` of the first that cannot be read. Work for a request, whose scope is
        given, ends when its client leaves.
        """
        photos, rows = await self._embed(images, scope, None)
        return rows, photos

    async def identify(
        self, images: Sequence[bytes], scope: Scope, ask: Ask
    ) -> tuple[list[list[Match] | ApiError], WorkingPoint | None]:
        """Who each image, or each face of a photo, shows, or why it cannot be read.

        Raises that `ApiError` where there is only one image, and where there is none for a rate.
        """
        photos, answer = await self._embed(images, scope, ask)
        if answer is None:  # no image can be read
            if len(photos) == 1:
                raise photos[0]
            return photos, await run_in_threadpool(self.point, ask.fpir, ask.threshold)
        matches, point = iter(answer[0]), answer[1]
        answers = [one if isinstance(one, ApiError) else one.with_boxes(matches) for one in photos]
        return answers, point

    async def _embed(
        self, images: Sequence[bytes], scope: Scope, ask: Ask | None
    ) -> tuple[list[Any], Any]:
        """What was decoded, and what `_finish` makes of all of it; None where that is nothing."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        future.add_done_callback(lambda done: done.exception())  # may come when nobody waits for it
        scope["on_disconnect"] = lambda: settle(future, ClientDisconnect())
        decode = partial(self._decode, images, future, every_face=ask is not None)
        photos = await loop.run_in_executor(self._decoders, partial(decode, may_be_large=False))
        if photos is None:  # alone, so that small ones need not wait
            photos = await loop.run_in_executor(self._large_decoder, decode)
        assert photos is not None
        arrays = [array for photo in photos for array in getattr(photo, "arrays", ())]
        if not arrays:
            return photos, None
        self._batcher.submit(Job(arrays, ask, future))
        return photos, await future

    def _decode(
        self,
        images: Sequence[bytes],
        future: "asyncio.Future[Any]",
        *,
        every_face: bool,
        may_be_large: bool = True,
    ) -> list[Decoded | ApiError] | None:
        """All images; None where one is large, and none may be.

        With `every_face` an error stands in the place of its image; otherwise the first is raised.
        Ends early where the client has left: its future is settled then.
        """
        photos: list[Decoded | ApiError] = []
        faces = 0
        for content in images:
            if future.done():
                raise ClientDisconnect
            try:
                image = self.decoder.open(content)
                if is_large(image) and not may_be_large:
                    return None
                photo = self.decoder.decode(image, every_face=every_face)
            except ApiError as error:
                if not every_face:
                    raise
                photos.append(error)
                continue
            photos.append(photo)
            faces += len(photo.faces)
            if faces > _MOST_FACES:
                message = f"One request takes at most {_MOST_FACES:,} faces."
                raise ApiError("too_many_images", message)
        return photos

    def _finish(self, jobs: Sequence[Job], rows: Sequence[npt.NDArray[Any]]) -> list[Any]:
        """Embeddings as they are; for those who asked for it, who they show, and the threshold."""
        results: list[Any] = list(rows)
        groups: dict[Ask, list[int]] = {}
        for number, job in enumerate(jobs):
            if job.ask is not None:
                groups.setdefault(job.ask, []).append(number)
        for ask, numbers in groups.items():
            try:
                matches, point = self._identify(np.concatenate([rows[k] for k in numbers]), ask)
                rest = iter(matches)
                for number in numbers:
                    results[number] = [next(rest) for _ in rows[number]], point
            except ArcsetError as error:
                for number in numbers:
                    results[number] = error
        return results

    def _identify(
        self, rows: npt.NDArray[Any], ask: Ask
    ) -> tuple[list[Match], WorkingPoint | None]:
        with self.gallery.together():  # so that a gallery elsewhere is asked for its size once
            point = self.point(ask.fpir, ask.threshold)
            matches = self.gallery.identify_many(
                embeddings=rows, fpir=ask.fpir, threshold=ask.threshold, candidates=ask.candidates
            )
        return matches, point

    def close(self) -> None:
        """Finish what waits, and close everything."""
        for pool in (self.drawing, self._decoders, self._large_decoder):
            pool.shutdown()
        self._batcher.close()
        self.subjects.close()
        self.gallery.close()


class SubjectList:
    """All subjects, read anew when anybody has changed the gallery: 100,000 take half a second.

    A connection of its own tells whether anybody committed, this process or another one. Where it
    cannot be asked, as in Milvus, nothing is remembered. Threads may share it.
    """

    def __init__(self, gallery: Gallery) -> None:
        self._gallery, self._lock = gallery, threading.Lock()
        self._version, self._subjects = -1, tuple[Subject, ...]()
        self._connection: sqlite3.Connection | None = None
        if isinstance(gallery.path, Path):
            # By SQLite, as closing a file that was opened otherwise would drop SQLite's locks.
            address = f"{gallery.path.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(address, uri=True, check_same_thread=False)

    def read(self) -> Sequence[Subject]:
        """All subjects as they are now, the first enrolled first."""
        if self._connection is None:
            return self._gallery.subjects()
        with self._lock:
            # Asked before: what is committed meanwhile is seen the next time.
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._subjects, self._version = self._gallery.subjects(), version
            return self._subjects

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()


def no_such_subject() -> ApiError:
    """The error for a name that is not enrolled."""
    return ApiError("no_such_subject", "No subject of this name is enrolled.")
