"""Images of many requests through the network together.

A thread takes whatever waits as soon as it is free: a single image at once where there is one, and
as many as fit into a batch where many ask. Nobody waits for a batch to fill up. Where there are
several threads, those that are free share what waits.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Batcher", "Job"]

Array = npt.NDArray[Any]


class Finish(Protocol):
    """What is done with the embeddings of a batch, in the same thread.

    Gets the jobs and, for each, its rows; returns a result or an error for each.
    """

    def __call__(self, jobs: Sequence["Job"], rows: Sequence[Array]) -> Sequence[Any]:
        """One result, or an exception, for each of the jobs."""


class Job:
    """Some arrays of one request.

    arrays: what `embed` takes, stacked. ask: whatever `finish` has to know.
    future: gets the result; one that has ended already is not worked on.
    """

    __slots__ = ("arrays", "ask", "future")

    def __init__(self, arrays: Sequence[Array], ask: Any, future: "asyncio.Future[Any]") -> None:
        self.arrays, self.ask, self.future = arrays, ask, future


class Batcher:
    """Threads that embed what waits.

    embed: (N, …) to (N, D). finish: see `Finish`. most: images per batch. workers: threads.
    observe: told the size of each batch.
    """

    def __init__(
        self,
        embed: Callable[[Array], Array],
        finish: Finish,
        *,
        most: int = 32,
        workers: int = 1,
        observe: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._embed, self._finish, self._most, self._observe = embed, finish, most, observe
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._free = 0  # threads that wait for work
        self._threads = [
            threading.Thread(target=self._work, name=f"batches {number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Let a job wait for its turn; from any thread. Raises `RuntimeError` once closed."""
        with self._changed:
            if self._stopped:
                raise RuntimeError("the batcher is closed")
            self._waiting.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Do what waits, and end the threads."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (jobs := self._taken()) is not None:
            if jobs:
                results = self._done(jobs)
                loop = jobs[0].future.get_loop()
                try:
                    loop.call_soon_threadsafe(_settle, jobs, results)
                except RuntimeError:  # the loop is closed: nobody waits any more
                    return

    def _taken(self) -> list[Job] | None:
        """The next batch; None at the end."""
        with self._changed:
            while not self._waiting:
                if self._stopped:
                    return None
                self._free += 1
                self._changed.wait()
                self._free -= 1
            jobs: list[Job] = []
            count = 0
            images = sum(len(job.arrays) for job in self._waiting)
            most = min(self._most, math.ceil(images / (1 + self._free)))
            while self._waiting:
                job = self._waiting[0]
                if job.future.done():
                    self._waiting.popleft()
                    continue
                if jobs and count + len(job.arrays) > most:
                    break
                jobs.append(self._waiting.popleft())
                count += len(job.arrays)
            return jobs

    def _done(self, jobs: list[Job]) -> Sequence[Any]:
        """A result for each; where all together fail, each by itself."""
        try:
            return self._together(jobs)
        except Exception as error:
            if len(jobs) == 1:
                return [error]
        found: list[Any] = []
        for job in jobs:
            try:
                found += self._together([job])
            except Exception as error:
                found.append(error)
        return found

    def _together(self, jobs: list[Job]) -> Sequence[Any]:
        arrays = [array for job in jobs for array in job.arrays]
        self._observe(len(arrays))
        parts = [
            self._embed(np.stack(arrays[start : start + self._most]))
            for start in range(0, len(arrays), self._most)
        ]
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)  # (N, D)
        ends = np.cumsum([len(job.arrays) for job in jobs])
        return self._finish(jobs, np.split(rows, ends[:-1]))


def _settle(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    """Hand over the results, in the loop's thread."""
    for job, result in zip(jobs, results, strict=True):
        if job.future.done():
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
