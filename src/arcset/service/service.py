"""What all routes share: the gallery, the model, the limits, and threads that do the work."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from arcset import __version__
from arcset.errors import ArcsetError, OptionError
from arcset.recognition.decisions import Match, WorkingPoint
from arcset.recognition.gallery import Gallery
from arcset.recognition.recognizer import ImageEmbedder
from arcset.service.asking import working_point_or_refusal
from arcset.service.batching import Batcher, Job
from arcset.service.decoding import Decoder
from arcset.service.errors import RefusalError
from arcset.service.followed import Followed
from arcset.service.keys import Keys
from arcset.service.metrics import Metrics
from arcset.service.preparing import Preparing
from arcset.service.settings import ServiceSettings

__all__ = ["Ask", "Identified", "Service"]

T = TypeVar("T")

_DECODERS = 2  # threads; PIL decodes without holding the interpreter's lock
_WORKERS = 4  # threads for the gallery, which lets one in at a time


class Ask(NamedTuple):
    """What is wanted of an identification; equal ones are answered together."""

    fpir: float | None
    threshold: float | None
    candidates: int


class Identified(NamedTuple):
    """Answers to the images of one request, and where "known" began."""

    matches: Sequence[Match | RefusalError]
    point: WorkingPoint


class Service:
    """One gallery, served.

    Attributes:
        gallery, recognizer, settings, keys: as given.
        views: what shows runs, or None.
        followed: what takes long to work out, kept until the gallery changes.
        stopping: whether it was told to end, and takes nothing new.
        in_flight, held: requests that are being answered, and bytes of theirs in memory.
    """

    def __init__(
        self, gallery: Gallery, settings: ServiceSettings, keys: Keys, views: Any = None
    ) -> None:
        if gallery.recognizer is None:
            raise OptionError(f"{gallery.path} was opened without a model, so that it sees nothing")
        self.gallery, self.settings, self.keys, self.views = gallery, settings, keys, views
        self.recognizer: ImageEmbedder = gallery.recognizer
        self.read_only = settings.read_only or gallery.read_only
        self.stopping = False
        self.in_flight = self.held = 0
        self.writing = threading.Lock()  # around "is it there?" and "then change it"
        self._file = _identity(gallery)
        self.decoder = Decoder(self.recognizer, settings.max_pixels)  # or refuses, before threads
        self.followed = Followed(gallery)
        self._workers = ThreadPoolExecutor(_WORKERS, "gallery")
        self._decoders = ThreadPoolExecutor(_DECODERS, "decode")
        self._slowly = ThreadPoolExecutor(1, "decode large")
        self._batcher = Batcher(
            self.decoder.embed,
            self._finish,
            most=settings.max_batch,
            workers=settings.workers,
            observe=self._observe,
        )
        self.metrics = Metrics(
            model=self.recognizer.name,
            digest=self.recognizer.digest,
            version=__version__,
            waiting=lambda: len(self._batcher),
            subjects=lambda: len(gallery),
            samples=lambda: gallery.sample_count,
        )

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One change at a time, and only to the file that is there; see `check_file`."""
        with self.writing:
            self.check_file()
            yield

    def check_file(self) -> None:
        """Raises `RefusalError` where the gallery's file is gone, or another is in its place.

        Whatever is written then would go to a file that nobody finds again.
        """
        if _identity(self.gallery) != self._file:
            message = "The gallery's file was replaced while it is served: start the service anew."
            raise RefusalError("gallery_unavailable", message)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in a worker thread, so that the loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, function, *args)

    async def embed(self, images: Sequence[bytes], scope: Scope) -> npt.NDArray[np.float32]:
        """(N, D) unit rows; raises the `RefusalError` of the first image that cannot be read.

        scope: of the request, which is not worked on once its client has left.
        """
        rows: npt.NDArray[np.float32] = await self._batched(images, scope)
        return rows

    async def identify(self, images: Sequence[bytes], scope: Scope, ask: Ask) -> Identified:
        """Who each image shows, or why it cannot be read.

        Raises that `RefusalError` where there is only one image, and where there is no threshold.
        """
        errors: dict[int, RefusalError] = {}
        found: Identified | None = await self._batched(images, scope, ask, errors)
        if found is None:
            if len(images) == 1:
                raise errors[0]
            found = Identified([], await self.run(self.point, ask.fpir, ask.threshold))
        if not errors:
            return found
        rest = iter(found.matches)
        matches = [errors[place] if place in errors else next(rest) for place in range(len(images))]
        return Identified(matches, found.point)

    async def _batched(
        self,
        images: Sequence[bytes],
        scope: Scope,
        ask: Ask | None = None,
        errors: dict[int, RefusalError] | None = None,
    ) -> Any:
        """Decoded in a thread, which hands them to the batcher without the loop in between.

        errors: gets what is wrong with single images, instead of the caller; where nothing is left,
        the result is None.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        scope["gone"] = partial(_settle, future, ClientDisconnect())

        preparing = Preparing(self.decoder, images, errors)

        def prepare(slowly: bool = False) -> None:
            try:
                if future.done():
                    return
                if not preparing.go_on(slowly=slowly):
                    self._slowly.submit(prepare, True)  # so that small images need not wait
                elif preparing.arrays:
                    self._batcher.submit(Job(preparing.arrays, ask, future))
                else:
                    loop.call_soon_threadsafe(_settle, future, None)
            except Exception as error:
                loop.call_soon_threadsafe(_settle, future, error)

        self._decoders.submit(prepare)
        return await future

    def _finish(self, jobs: Sequence[Job], rows: Sequence[npt.NDArray[Any]]) -> list[Any]:
        """Embeddings as they are; for those who asked for it, who they show."""
        results: list[Any] = list(rows)
        groups: dict[Ask, list[int]] = {}
        for place, job in enumerate(jobs):
            if job.ask is not None:
                groups.setdefault(job.ask, []).append(place)
        for ask, places in groups.items():
            try:
                found = self._identified(np.concatenate([rows[place] for place in places]), ask)
            except ArcsetError as error:
                for place in places:
                    results[place] = error
                continue
            start = 0
            for place in places:
                end = start + len(rows[place])
                results[place] = Identified(found.matches[start:end], found.point)
                start = end
        return results

    def _identified(self, rows: npt.NDArray[Any], ask: Ask) -> Identified:
        with self.gallery.together():  # so that a gallery elsewhere is asked for its size once
            point = self.point(ask.fpir, ask.threshold)
            matches = self.gallery.identify_many(
                embeddings=rows, fpir=ask.fpir, threshold=ask.threshold, candidates=ask.candidates
            )
        return Identified(matches, point)

    def point(self, fpir: float | None, threshold: float | None = None) -> WorkingPoint:
        """Where "known" begins now; raises `RefusalError`: no_calibration, unsupported_rate, …"""
        return working_point_or_refusal(self.gallery, fpir, threshold)

    def _observe(self, size: int) -> None:
        self.metrics.batches.observe(size)

    def close(self) -> None:
        """Do what waits, and let go of everything."""
        self._decoders.shutdown()
        self._slowly.shutdown()
        self._batcher.close()
        self._workers.shutdown()
        self.followed.close()
        self.gallery.close()


def _identity(gallery: Gallery) -> tuple[int, int] | None:
    if not isinstance(gallery.path, Path):
        return None
    try:
        status = gallery.path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _settle(future: "asyncio.Future[Any]", outcome: Exception | None) -> None:
    if future.done():
        return
    if outcome is None:
        future.set_result(None)
    else:
        future.set_exception(outcome)
