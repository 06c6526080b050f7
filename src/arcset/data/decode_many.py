"""Many images decoded by several threads, some at a time, so that memory stays bounded."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from arcset.data.sources.base import Listing
from arcset.errors import DataError, InputError

Watch = Callable[[int, int], None]  # how many are done, of how many

_MOST_THREADS = 16

Item = TypeVar("Item")
Decoded = TypeVar("Decoded")
Outcomes = list[tuple[Item, Decoded | DataError | InputError]]


def decode_many(
    chunks: Iterable[Sequence[Item]], decode: Callable[[Item], Decoded]
) -> Iterator[Outcomes[Item, Decoded]]:
    """Every chunk in its turn: each item with what `decode` returned, or raised.

    The next chunk is decoded while the caller uses this one, and no more than that.

        >>> def half(number):
        ...     if number % 2:
        ...         raise DataError(f"{number} is odd")
        ...     return number // 2
        >>> list(decode_many([[4, 6], [7]], half))
        [[(4, 2), (6, 3)], [(7, DataError('7 is odd'))]]
    """

    def attempt(items: Sequence[Item]) -> Outcomes[Item, Decoded]:
        outcomes: Outcomes[Item, Decoded] = []
        for item in items:
            try:
                outcomes.append((item, decode(item)))
            except (DataError, InputError) as error:
                outcomes.append((item, error))
        return outcomes

    threads = _count_threads()
    with ThreadPoolExecutor(threads, "decode") as pool:
        ahead: list[Future[Outcomes[Item, Decoded]]] | None = None
        for chunk in chunks:
            # In pieces, so that all threads end at about the same time.
            pieces = in_chunks(chunk, max(1, -(-len(chunk) // (4 * threads))))
            current, ahead = ahead, [pool.submit(attempt, piece) for piece in pieces]
            if current is not None:
                yield [outcome for piece in current for outcome in piece.result()]
        if ahead is not None:
            yield [outcome for piece in ahead for outcome in piece.result()]


def decode_listing(
    listing: Listing,
    numbers: Sequence[int],
    decode: Callable[[int], Decoded],
    unreadable: list[tuple[str, str]],
    *,
    chunk: int = 256,
    done: int = 0,
    watch: Watch | None = None,
) -> Iterator[list[tuple[int, Decoded]]]:
    """The samples `numbers` of a listing, `chunk` at a time, each with what `decode` returned.

    Path and reason of those that cannot be read go to `unreadable`. done: how many samples have
    been dealt with before, for `watch`.
    """
    for outcomes in decode_many(in_chunks(numbers, chunk), decode):
        decoded = []
        for number, outcome in outcomes:
            if isinstance(outcome, DataError | InputError):
                path = listing.paths[number]
                unreadable.append((path, reason(outcome, path)))
            else:
                decoded.append((number, outcome))
        yield decoded
        done += len(outcomes)
        if watch is not None:
            watch(done, len(listing))


def in_chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in order, `size` at a time.

    >>> list(in_chunks("abcde", 2))
    ['ab', 'cd', 'e']
    """
    return (items[start : start + size] for start in range(0, len(items), size))


def reason(error: Exception, name: str) -> str:
    """What an error says, without the name of the sample in front, where that stands beside it.

    >>> reason(DataError("a.png cannot be read"), "a.png")
    'cannot be read'
    """
    return str(error).removeprefix(name).lstrip(" :") or str(error)


def _count_threads() -> int:
    """This process's share of the cores, as PIL decodes without holding the interpreter's lock.

    One more waits for the disk.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # processes on this machine
    return min(max(1, cores // here) + 1, _MOST_THREADS)
