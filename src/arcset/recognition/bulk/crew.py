"""One process, or several that share work: `torchrun --nproc-per-node 4 -m arcset embed …`.

Nothing is exchanged but small notes, through the store that torchrun keeps for its processes: what
the first has found out for all, the number of the next piece of work, and how far everybody is. So
a fast process takes more pieces than a slow one, and nobody waits for anybody before the end.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from arcset.errors import ArcsetError, DataError, RunError
from arcset.launch import world_size

__all__ = ["Crew", "SaidByChiefError", "join_crew", "meet"]

_PATIENCE = 600.0  # seconds until all have found each other
_GLANCE = 0.05  # seconds between two looks at what others have written
_SPEAKS = 0.5  # seconds for the chief to say it: torchrun ends all when the first of them ends
_SILENCE = 3600.0  # seconds that no process tells anything, while the chief waits for the last
_LINGER = 5.0  # seconds that the others have to hear that there is nothing to do


class SaidByChiefError(DataError):
    """What the chief has raised, and has told: raised again in the others, so that they end."""


class Crew:
    """Alone: everything is done here."""

    rank = 0
    count = 1

    def __init__(self) -> None:
        self._done = 0

    @property
    def chief(self) -> bool:
        """Whether this process lists, and speaks for all."""
        return self.rank == 0

    def shared(self, make: Callable[[], Any]) -> Any:
        """What `make` gives the chief, anything that JSON can say; the others wait for it.

        What it raises ends all of them, the others with `SaidByChiefError`. Numbers begin at 0
        again, and nothing is done yet.
        """
        self._done = 0
        return make()

    def numbers(self, count: int) -> Iterator[int]:
        """Some of 0 … count − 1; every number goes to exactly one process, when it asks for it."""
        yield from range(count)

    def told(self, more: int) -> int:
        """Say that so many samples more are done; how many that makes in all."""
        self._done += more
        return self._done

    def gathered(self, own: Any, watch: Callable[[int], None]) -> list[Any]:
        """What everybody hands in at the end, for the chief; the others get their own only.

        watch: told how many samples are done, while the chief waits.
        """
        return [own]

    def check(self) -> None:
        """Raises `RunError` where it makes no sense to go on, as the others are gone."""


class _Together(Crew):
    """One of several processes that share a store."""

    def __init__(self, store: Store, rank: int, count: int) -> None:
        super().__init__()
        self.rank, self.count = rank, count
        self._store = store
        self._parent = os.getppid()
        self._shared = 0

    def shared(self, make: Callable[[], Any]) -> Any:
        key = f"shared/{self._shared}"
        self._shared += 1
        if self.chief:
            try:
                value = make()
            except (ArcsetError, OSError) as error:
                self._set(key, {"error": str(error)})
                self._linger()
                raise
            self._set(key, {"value": value})
            return value
        found = self._waited(key)
        if "error" in found:
            self._added("heard", 1)
            time.sleep(_SPEAKS)
            raise SaidByChiefError(found["error"])
        return found["value"]

    def numbers(self, count: int) -> Iterator[int]:
        while (number := self._added(self._key("next"), 1) - 1) < count:
            yield number

    def told(self, more: int) -> int:
        self.check()
        return self._added(self._key("done"), more)

    def gathered(self, own: Any, watch: Callable[[int], None]) -> list[Any]:
        self._set(self._key(f"own/{self.rank}"), own)
        if not self.chief:
            return [own]
        silence = _Silence()

        def meanwhile(rank: int) -> None:
            done = self.told(0)
            watch(done)
            silence.check(done, f"process {rank} of {self.count}")

        return [
            self._waited(self._key(f"own/{rank}"), partial(meanwhile, rank))
            for rank in range(self.count)
        ]

    def check(self) -> None:
        if os.getppid() != self._parent:  # torchrun was killed, and perhaps started anew
            raise RunError("the process that started this one is gone")

    def chief_word(self) -> str:
        """A new word, once all others have it."""
        word = secrets.token_hex(8)
        answered: dict[int, Any] = {}
        missing = set(range(1, self.count))
        until = time.monotonic() + _PATIENCE
        while missing:
            for rank in sorted(missing):
                if self._there(f"{word}/{rank}"):
                    missing.discard(rank)
                elif self._there(f"asks/{rank}"):
                    asked = self._waited(f"asks/{rank}")
                    if answered.get(rank) != asked:  # not one who is gone
                        self._set(f"answer/{asked}", word)
                        answered[rank] = asked
            self._pause(until)
        return word

    def told_word(self) -> str:
        """The word that the chief has for this process, and no other of its rank before it."""
        own = secrets.token_hex(8)
        self._set(f"asks/{self.rank}", own)
        until = time.monotonic() + _PATIENCE
        while not self._there(f"answer/{own}"):
            self._pause(until)
        word = str(self._waited(f"answer/{own}"))
        self._set(f"{word}/{self.rank}", True)
        return word

    def _pause(self, until: float) -> None:
        self.check()
        if time.monotonic() > until:
            raise RunError(f"not all of the {self.count} processes have come")
        time.sleep(_GLANCE)

    def _key(self, name: str) -> str:
        """In the store, of what is done since the chief last shared something."""
        return f"{self._shared}/{name}"

    def _linger(self) -> None:
        """Until the others have heard of it: the store may end with this process."""
        until = time.monotonic() + _LINGER
        while self._added("heard", 0) < self.count - 1 and time.monotonic() < until:
            time.sleep(_GLANCE)

    def _set(self, key: str, value: Any) -> None:
        with _reachable():
            self._store.set(key, json.dumps(value))

    def _added(self, key: str, more: int) -> int:
        with _reachable():
            return int(self._store.add(key, more))

    def _there(self, key: str) -> bool:
        with _reachable():
            return bool(self._store.check([key]))

    def _waited(self, key: str, meanwhile: Callable[[], None] | None = None) -> Any:
        while not self._there(key):
            self.check()
            if meanwhile is not None:
                meanwhile()
            time.sleep(_GLANCE)
        with _reachable():
            return json.loads(self._store.get(key))


class _Silence:
    """How long nobody has done anything: torchrun does not notice a whole machine that is gone."""

    def __init__(self) -> None:
        self._done, self._since = -1, time.monotonic()

    def check(self, done: int, who: str) -> None:
        """Raises `RunError` about `who`, who is waited for, if `done` has not grown for long."""
        now = time.monotonic()
        if done != self._done:
            self._done, self._since = done, now
        elif now > self._since + _SILENCE:
            raise RunError(
                f"{who} has told nothing for {_SILENCE / 60:.0f} minutes, as when its machine is "
                "gone: run the same once more"
            )


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # as torch's own errors are
        words = str(error).partition("\n")[0]
        raise RunError(f"the other processes cannot be reached any more: {words}") from None


def join_crew() -> Crew:
    """This process among those that torchrun has started, or alone.

    Raises `RunError` where the environment says that there are others, and they are not met.
    """
    try:
        if world_size() < 2:
            return Crew()
        store, rank, count = next(rendezvous("env://", timeout=timedelta(seconds=_PATIENCE)))
    except (RuntimeError, ValueError) as error:
        words = str(error).partition("\n")[0]
        raise RunError(f"the processes cannot find each other: {words}") from None
    return meet(store, rank, count)


def meet(store: Store, rank: int, count: int) -> Crew:
    """Find each other through a store that may hold what others have written before.

    After a restart, be it of as many processes or of fewer, it still does. So each process asks
    under a word of its own, the chief answers with one that is good for all of this time, and is
    content when everybody has used that. Raises `RunError` where that takes too long.
    """
    found = _Together(PrefixStore("arcset/embed", store), rank, count)
    word = found.chief_word() if rank == 0 else found.told_word()
    return _Together(PrefixStore(f"arcset/embed/{word}", store), rank, count)
