"""Which own images are for testing, and which identities stay out of training."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["EVERY", "apart_identities", "for_testing"]

EVERY = 5  # an identity with at least this many images gives every fifth for testing


def for_testing(
    names: Sequence[str], paths: Sequence[str], parts: Sequence[str] | None = None
) -> npt.NDArray[np.bool_]:
    """(N,): whether an image is for testing.

    Without `parts`: the images of an identity are ordered by a hash of their paths, and every fifth
    one is for testing; none where there are fewer than five. Neither the order of the samples nor
    the other identities matter.
    With them: the rows of an identity that are not for training, be they for validation or for
    testing, are test images where others of its rows are for training. Where none is, it is an
    identity apart (see `apart_identities`), and its images divide as they would without `parts`.

        >>> for_testing(["a"] * 5 + ["b"] * 4, [f"{i}.png" for i in range(9)]).tolist()
        [False, False, True, False, False, False, False, False, False]
    """
    testing = np.zeros(len(names), np.bool_)
    known = _trained(names, parts)
    members = defaultdict(list)
    for index, name in enumerate(names):
        if parts is not None and name in known:
            testing[index] = parts[index] != "train"
        else:
            members[name].append(index)
    for indices in members.values():
        if len(indices) >= EVERY:
            ordered = sorted(indices, key=lambda index: (_hash(paths[index]), paths[index]))
            testing[ordered[EVERY - 1 :: EVERY]] = True
    return testing


def apart_identities(
    names: Sequence[str], parts: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """Identities without a row for training, under "validation" and "test"; sorted.

    One that has rows of both kinds is for the test: whoever tunes on it has seen it.

        >>> apart_identities(["a", "a", "b", "c"], ["train", "test", "validation", "test"])
        {'validation': ('b',), 'test': ('c',)}
    """
    if parts is None:
        return {}
    known = _trained(names, parts)
    found: dict[str, set[str]] = {"validation": set(), "test": set()}
    for name, part in zip(names, parts, strict=True):
        if name not in known:
            found[part].add(name)
    found["validation"] -= found["test"]
    return {part: tuple(sorted(members)) for part, members in found.items() if members}


def _trained(names: Sequence[str], parts: Sequence[str] | None) -> set[str]:
    if parts is None:
        return set()
    return {name for name, part in zip(names, parts, strict=True) if part == "train"}


def _hash(path: str) -> bytes:
    return hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest()
