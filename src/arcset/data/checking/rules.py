"""What counts as a finding, how it is said, and what is worse than what."""

from collections.abc import Iterable, Iterator

from arcset.data.checking.result import DataCheck, Finding, Twins, counted
from arcset.data.own.listing import Listing

__all__ = ["FEW", "findings"]

FEW = 5  # from so many images on, every fifth of an identity is put aside for testing


def findings(check: DataCheck, listing: Listing) -> tuple[Finding, ...]:
    """Everything to know about what `check` holds, worst first."""
    found = [
        *_alone(check),
        *_labels(check),
        *_leaks(check, listing),
        *_unreadable(check),
        *_skipped(check),
        *_blank(check),
        *_once(check),
        *_repeated(check),
        *_few(check),
        *_mixed(check),
        *(Finding("note", False, note, "") for note in listing.notes),
    ]
    return tuple(sorted(found, key=lambda finding: not finding.serious))


def _alone(check: DataCheck) -> Iterator[Finding]:
    readable = [name for name, count in check.per_identity.items() if count]
    if len(readable) == 1:
        yield Finding(
            "alone",
            True,
            f"there is one identity only, {readable[0]}: nothing to tell it from",
            "put the images of each identity into a folder of its own, named by it",
        )


def _labels(check: DataCheck) -> Iterator[Finding]:
    if check.across:
        many = len(check.across)
        said = (
            "1 picture appears under two identities or more: one of its labels is wrong"
            if many == 1
            else f"{many:,} pictures appear under two identities or more: "
            "of each, one of the labels is wrong"
        )
        yield Finding(
            "labels",
            True,
            said,
            "look whom each shows, and remove it from the others",
            tuple(map(str, check.across)),
        )


def _leaks(check: DataCheck, listing: Listing) -> Iterator[Finding]:
    parts = listing.parts
    if parts is None:
        return
    leaks = [
        twins
        for twins in (*check.across, *check.within)
        if len({parts[position] for position in twins.positions}) > 1
    ]
    if leaks:
        yield Finding(
            "leaks",
            True,
            f"{_pictures(leaks)} in more than one part of the split: what is trained on is "
            "tested on, and the result will look better than it is",
            "keep each in one part",
            tuple(
                " = ".join(
                    f"{path} ({parts[position]})"
                    for path, position in zip(twins.paths, twins.positions, strict=True)
                )
                for twins in leaks
            ),
        )


def _unreadable(check: DataCheck) -> Iterator[Finding]:
    if check.unreadable:
        yield Finding(
            "unreadable",
            True,
            f"{counted(len(check.unreadable), 'image')} of {check.images:,} cannot be read, "
            "and will be left out",
            "fetch them again, or remove them",
            _reasons(check.unreadable),
        )
    empty = [name for name, count in check.per_identity.items() if not count]
    if empty:
        yield Finding(
            "empty",
            True,
            f"{_identities(empty)} no image that can be read",
            "fetch the images again, or remove the identity",
            tuple(empty),
        )


def _skipped(check: DataCheck) -> Iterator[Finding]:
    if check.skipped:
        yield Finding(
            "skipped",
            True,
            f"{counted(len(check.skipped), 'entry', 'entries')} cannot be an image of an identity, "
            "and will be left out",
            "put right what is said of each, or remove it",
            _reasons(check.skipped),
        )


def _blank(check: DataCheck) -> Iterator[Finding]:
    for paths, what in ((check.black, "black, or nearly"), (check.plain, "all of one colour")):
        if paths:
            verb = "is" if len(paths) == 1 else "are"
            yield Finding(
                "blank",
                True,
                f"{counted(len(paths), 'image')} {verb} {what}: there is nothing to learn from",
                "remove them",
                paths,
            )


def _once(check: DataCheck) -> Iterator[Finding]:
    once = [name for name, count in check.per_identity.items() if count == 1]
    if once:
        yield Finding(
            "once",
            False,
            f"{_identities(once)} a single image, so similarity within them cannot be measured",
            "add images, if there are any",
            tuple(once),
        )


def _repeated(check: DataCheck) -> Iterator[Finding]:
    if check.within:
        spare = sum(len(twins.positions) - 1 for twins in check.within)
        yield Finding(
            "repeated",
            False,
            f"{_pictures(check.within)} more than once under one identity: "
            f"{counted(spare, 'image')} too many, for pairs that are too easy",
            "keep one of each",
            tuple(map(str, check.within)),
        )


def _few(check: DataCheck) -> Iterator[Finding]:
    few = {name: count for name, count in check.per_identity.items() if 1 < count < FEW}
    if few:
        yield Finding(
            "few",
            False,
            f"{_identities(few)} fewer than {FEW} images, of which none is put aside for testing",
            "add images, if there are any",
            tuple(f"{name}: {count}" for name, count in few.items()),
        )


def _mixed(check: DataCheck) -> Iterator[Finding]:
    grey = sum(count for mode, count in check.modes.items() if _is_grey(mode))
    coloured = check.readable - grey
    if grey and coloured:
        yield Finding(
            "mixed",
            False,
            f"grey and coloured images are mixed, {grey:,} and {coloured:,}: where that goes with "
            "the identity, the colour is learned, and not who it is",
            "train with one channel, so that all become grey",
        )


def _is_grey(mode: str) -> bool:
    return mode in ("1", "L", "LA", "La") or mode.startswith(("I", "F"))


def _pictures(twins: Iterable[Twins]) -> str:
    count = len(list(twins))
    return f"{counted(count, 'picture')} {'appears' if count == 1 else 'appear'}"


def _identities(names: Iterable[str]) -> str:
    count = len(list(names))
    return f"{counted(count, 'identity', 'identities')} {'has' if count == 1 else 'have'}"


def _reasons(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{path}: {why}" for path, why in pairs)
