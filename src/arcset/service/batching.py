"""Images of many requests through the network together.

A thread takes whatever waits as soon as it is free: a single image at once where there is one, and
as many as fit into a batch where many ask. Nobody waits for a batch to fill up. Where there are
several threads, those that are free share what waits.
"""

import asyncio
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnxruntime import get_available_providers
from threadpoolctl import threadpool_limits

from arcset.recognition.onnx_model import thread_count

Array = npt.NDArray[Any]

_MOST_WORKERS = 4


class Job(NamedTuple):
    """Some arrays of one request.

    arrays: what `embed` takes, stacked. ask: whatever `finish` has to know.
    future: gets the result; one that has ended already is not worked on.
    """

    arrays: Sequence[Array]
    ask: Any
    future: "asyncio.Future[Any]"


class Batcher:
    """Threads that embed what waits.

    embed: (N, …) to (N, D). finish: what is done with a batch's embeddings in the same thread: gets
    the jobs and each one's rows, and returns a result or an error for each. most: images per batch.
    workers: threads. observe: told the size of each batch.
    """

    def __init__(
        self,
        embed: Callable[[Array], Array],
        finish: Callable[[Sequence[Job], Sequence[Array]], Sequence[Any]],
        *,
        most: int = 32,
        workers: int = 1,
        observe: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._embed, self._finish, self._most, self._observe = embed, finish, most, observe
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
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
            if self._closed:
                raise RuntimeError("the batcher is closed")
            self._waiting.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Do what waits, and end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (jobs := self._next_batch()) is not None:
            results = self._run(jobs)
            for job, result in zip(jobs, results, strict=True):
                try:
                    job.future.get_loop().call_soon_threadsafe(settle, job.future, result)
                except RuntimeError:  # the loop is closed: nobody waits any more
                    return

    def _next_batch(self) -> list[Job] | None:
        """What is to be done together; None at the end."""
        with self._changed:
            while not self._waiting:
                if self._closed:
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

    def _run(self, jobs: list[Job]) -> Sequence[Any]:
        """A result or an error for each; where all together fail, each is tried by itself."""
        if not jobs:
            return []
        try:
            arrays = [array for job in jobs for array in job.arrays]
            self._observe(len(arrays))
            parts = [
                self._embed(np.stack(arrays[start : start + self._most]))
                for start in range(0, len(arrays), self._most)
            ]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts)  # (N, D)
            ends = np.cumsum([len(job.arrays) for job in jobs])
            return self._finish(jobs, np.split(rows, ends[:-1]))
        except Exception as error:
            if len(jobs) == 1:
                return [error]
        return [result for job in jobs for result in self._run([job])]


def settle(future: "asyncio.Future[Any]", outcome: Any) -> None:
    """Hand over a result or an error, in the loop's thread, unless nobody waits any more."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def share_processors(device: str, *, needs_torch: bool) -> int:
    """Divide the processors among batches that are computed side by side; returns how many are.

    Several threads that compute one batch together wait for each other at every layer, all the
    more where decoding and clients take a processor away from one of them. Batches side by side
    wait for nobody. On a graphics card one batch at a time has all of it.

    To be called before a model is loaded, which keeps the number of its threads. needs_torch: as a
    run does; an ONNX file does not, and torch is not imported.
    """
    if needs_torch:
        import torch

        from arcset.devices import choose_device

        on_cpu, threads = choose_device(device).type == "cpu", torch.get_num_threads()
    else:
        on_cpu = device == "cpu" or "CUDAExecutionProvider" not in get_available_providers()
        threads = thread_count()
    if not on_cpu:
        return 1
    workers = min(threads, _MOST_WORKERS)
    each = max(1, threads // workers)
    if "torch" in sys.modules:  # then ONNX Runtime goes by its number, too
        sys.modules["torch"].set_num_threads(each)
    os.environ["OMP_NUM_THREADS"] = str(each)
    threadpool_limits(each, user_api="blas")  # whose threads keep a processor busy while they wait
    return workers
