"""Whether a user's data is in order before it is trained on: counts, broken files, wrong labels.

check = check_data("people")          # a folder tree, a table, records
print(check.table())                  # findings in plain words, worst first
contact_sheet(list_samples("people"), check).save("people.png")
"""

import hashlib
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from arcset.data.decode import Watch, decode_many, in_chunks, reason
from arcset.data.image import is_grey, open_image, to_channels, turn_upright
from arcset.data.sources.base import Listing
from arcset.data.sources.samples import list_samples
from arcset.errors import DataError
from arcset.text import plural

__all__ = ["DataCheck", "Finding", "Look", "Twins", "check_data", "look_at"]

_FEW = 5  # from so many images on, every fifth of an identity is put aside for testing
_DIGEST = 16  # bytes kept of each SHA-256: no two of 10^15 images would share them by chance
_BLACK, _PLAIN = 16, 8  # grey levels
_STRAY = 0.0005  # share of the pixels at either end that does not count
_LARGE = 1 << 25  # pixels; larger images are decoded one at a time, so that memory stays bounded
_AT_ONCE = 256  # images handed to the threads
_BLANK = ("", "black", "plain")

_BINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # the lower ends of the histogram's bins
_BAR = 32  # characters of its longest bar
_LISTED = 5  # kinds of size, mode and format that the table names

_MODES = {
    "1": "1 bit",
    "L": "grey",
    "LA": "grey with transparency",
    "P": "palette",
    "RGBA": "RGB with transparency",
    "I;16": "16-bit grey",
}


@dataclass(frozen=True)
class Finding:
    """Something that people should know before they train.

    kind: one word, as "labels". serious: whether it should be put right first.
    text: what it is. advice: what to do. examples: the images or identities it is about, all of
    them.
    """

    kind: str
    serious: bool
    text: str
    advice: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Twins:
    """Images with the very same pixels, two or more.

    positions, paths, names: where they are in the listing, and their identities.
    identical: whether the files are the same too, byte for byte.
    """

    positions: tuple[int, ...]
    paths: tuple[str, ...]
    names: tuple[str, ...]
    identical: bool

    def __str__(self) -> str:
        pairs = zip(self.paths, self.names, strict=True)
        text = " = ".join(_with_identity(path, name) for path, name in pairs)
        return text if self.identical else f"{text} (other files, same pixels)"

    def json(self) -> dict[str, Any]:
        """As plain data."""
        pairs = zip(self.paths, self.names, strict=True)
        images = [{"path": path, "identity": name} for path, name in pairs]
        return {"images": images, "identical": self.identical}


@dataclass(frozen=True)
class DataCheck:
    """What `check_data` found.

    place, kind: as of the listing. images: how many are listed.
    per_identity: readable images by identity, in the order of the listing.
    sizes: images by (width, height). modes, formats: images by PIL's names, as RGB and JPEG.
    unreadable: (path, why). skipped: the same for what the listing itself passed over.
    black, plain: paths of images that show nothing: too dark, or all of one colour.
    across, within: the same picture under several identities, and several times under one.
    findings: in plain words, worst first.
    """

    place: str
    kind: str
    images: int
    per_identity: Mapping[str, int]
    sizes: Mapping[tuple[int, int], int]
    modes: Mapping[str, int]
    formats: Mapping[str, int]
    unreadable: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...]
    black: tuple[str, ...]
    plain: tuple[str, ...]
    across: tuple[Twins, ...]
    within: tuple[Twins, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def serious(self) -> bool:
        """Whether anything should be put right before training."""
        return any(finding.serious for finding in self.findings)

    @property
    def readable(self) -> int:
        """How many images can be read."""
        return self.images - len(self.unreadable)

    def histogram(self) -> dict[str, int]:
        """How many identities have 1, 2–4, 5–9 … readable images; empty ends are left out."""
        names = [_span(low, end - 1) for low, end in pairwise(_BINS)]
        names.append(f"{_BINS[-1]:,} or more")
        bins = np.searchsorted(_BINS, [n for n in self.per_identity.values() if n], side="right")
        counts = np.bincount(bins - 1, minlength=len(names))
        filled = np.flatnonzero(counts)
        chosen = slice(filled[0], filled[-1] + 1) if len(filled) else slice(0)
        return dict(zip(names[chosen], counts[chosen].tolist(), strict=True))

    def table(self, rows: int = 10) -> str:
        """Everything as plain text, with up to `rows` examples of each finding."""
        counts = self.per_identity.values()
        few, many = min(counts), max(counts)
        per_identity = f"{few:,}" if few == many else f"{few:,} to {many:,}"
        lines = [
            f"{self.place}: {self.kind}",
            "",
            f"images      {self.images:,}"
            + (f", {self.readable:,} of them readable" if self.unreadable else ", all readable"),
            f"identities  {len(counts):,} with {per_identity} images each"
            + (f", median {statistics.median(counts):g}" if few < many else ""),
            f"sizes       {_most({f'{w}×{h}': count for (w, h), count in self.sizes.items()})}",
            f"pixels      {_most({_MODES.get(mode, mode): n for mode, n in self.modes.items()})}",
            f"formats     {_most(self.formats)}",
            "",
            *self._bars(),
            *self._findings_as_text(rows),
        ]
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """The same as plain data, with every example."""
        counts = self.per_identity.values()
        return {
            "place": self.place,
            "kind": self.kind,
            "images": self.images,
            "readable": self.readable,
            "identities": len(counts),
            "images_per_identity": {
                "min": min(counts),
                "median": statistics.median(counts),
                "max": max(counts),
                "histogram": self.histogram(),
            },
            "sizes": [
                {"width": width, "height": height, "images": count}
                for (width, height), count in self.sizes.items()
            ],
            "modes": dict(self.modes),
            "formats": dict(self.formats),
            "unreadable": [{"path": path, "why": why} for path, why in self.unreadable],
            "skipped": [{"path": path, "why": why} for path, why in self.skipped],
            "black": list(self.black),
            "plain": list(self.plain),
            "across": [twins.json() for twins in self.across],
            "within": [twins.json() for twins in self.within],
            "serious": self.serious,
            "findings": [
                {key: getattr(finding, key) for key in ("kind", "serious", "text", "advice")}
                for finding in self.findings
            ],
        }

    def _bars(self) -> list[str]:
        bins = self.histogram()
        most = max(bins.values())
        long, wide = max(map(len, bins)), len(f"{most:,}")
        lines = [
            f"  {key:>{long}}  {count:>{wide},}  {'█' * -(-count * _BAR // most)}".rstrip()
            for key, count in bins.items()
        ]
        return ["identities by their images", *lines, ""]

    def _findings_as_text(self, rows: int) -> list[str]:
        if not self.findings:
            return ["No problems found."]
        serious = sum(finding.serious for finding in self.findings)
        must = f"{serious} that must be fixed" if serious else "nothing that must be fixed"
        lines = [f"{plural(len(self.findings), 'note')}, {must}"]
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {'FIX: ' if finding.serious else ''}{finding.text}"]
            lines += [f"     {example}" for example in finding.examples[:rows]]
            if len(finding.examples) > rows > 0:
                lines.append(f"     … and {len(finding.examples) - rows:,} more")
            if finding.advice:
                lines.append(f"   → {finding.advice}")
        return lines


def check_data(source: Path | str | Listing, watch: Watch | None = None) -> DataCheck:
    """Look at every image of a folder tree, a table (CSV, Parquet) or records (.rec).

    watch: called with the number of images done and of all, from time to time.

    Finds files that cannot be read; the same picture under two identities, which makes one of the
    labels wrong, and several times under one; images that show nothing; identities with one image
    or few. A picture is the same where every pixel is, whatever the file's format: one that was
    saved as JPEG twice is another. Blank images are not compared.

    Every image is decoded once, by several threads; 33 bytes are kept of each. Raises `DataError`
    where there is nothing to check, or no image can be read.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for path in ("anna/1.png", "anna/2.png", "bert/1.bmp"):
        ...         file = Path(folder, path)
        ...         file.parent.mkdir(exist_ok=True)
        ...         Image.radial_gradient("L").rotate(len(path) * ("2" in path)).save(file)
        ...     check = check_data(folder)
        >>> print(check.findings[0].text)
        1 picture appears under two identities or more: one of its labels is wrong
        >>> check.findings[0].examples
        ('anna/1.png = bert/1.bmp (other files, same pixels)',)
    """
    listing = source if isinstance(source, Listing) else list_samples(source)
    seen = _look_at_all(listing, watch)
    if len(seen.unreadable) == len(listing):
        raise DataError(
            f"none of the {len(listing):,} images of {listing.path} can be read; "
            f"the first: {listing.paths[0]}: {seen.unreadable[0]}"
        )
    counts = Counter[str]()
    for position, name in enumerate(listing.names):
        counts[name] += position not in seen.unreadable
    twins = [_twins(group, listing, seen) for group in seen.same_pixels()]
    black, plain = (
        tuple(listing.paths[i] for i in np.flatnonzero(seen.blank == kind).tolist())
        for kind in (1, 2)
    )
    check = DataCheck(
        place=str(listing.path),
        kind=listing.kind,
        images=len(listing),
        per_identity=counts,
        sizes=seen.sizes,
        modes=seen.modes,
        formats=seen.formats,
        unreadable=tuple((listing.paths[i], why) for i, why in seen.unreadable.items()),
        skipped=tuple(listing.skipped),
        black=black,
        plain=plain,
        across=tuple(each for each in twins if len(set(each.names)) > 1),
        within=tuple(each for each in twins if len(set(each.names)) == 1),
    )
    findings = (
        *_serious_findings(check, listing.parts),
        *_other_findings(check, seen.grey),
        *(Finding("note", False, note, "") for note in listing.notes),
    )
    return replace(check, findings=findings)


# Looking at the images


@dataclass(frozen=True)
class Look:
    """What was seen of an image.

    content, pixels: the first 16 bytes of the SHA-256 of the file, and of the upright image in RGB
        with its size, which is the same for a PNG and a BMP of one picture.
    width, height: upright. mode, format: by PIL's names, as RGB and JPEG.
    is_grey: whether its pixels have no colours.
    blank: "black", "plain" (all of one colour), or "" for an image that shows something.
    """

    content: bytes
    pixels: bytes
    width: int
    height: int
    mode: str
    format: str
    is_grey: bool
    blank: str


_one_large = Lock()


def look_at(content: bytes, name: str) -> Look:
    """Decode a file's bytes; raises `DataError` that begins with `name` where that is impossible.

    Blank is judged per colour channel, with one pixel in a thousand left out of account: an image
    is black where the others are all darker than 16 of 255, and plain where they lie within 8
    levels.

        >>> import io
        >>> stream = io.BytesIO()
        >>> Image.new("L", (30, 20), 200).save(stream, "PNG")
        >>> seen = look_at(stream.getvalue(), "grey.png")
        >>> seen.width, seen.height, seen.mode, seen.format, seen.blank
        (30, 20, 'L', 'PNG', 'plain')
    """
    with open_image(content, name) as image, _room(image):
        mode, kind, grey = image.mode, image.format or "", is_grey(image)
        upright = turn_upright(image)
        colours = to_channels(upright, 3, name)
        digest = hashlib.sha256(b"%d %d " % colours.size)
        digest.update(np.asarray(colours).reshape(-1).data)
        return Look(
            hashlib.sha256(content).digest()[:_DIGEST],
            digest.digest()[:_DIGEST],
            *colours.size,
            mode,
            kind,
            grey,
            _blank(colours),
        )


def _room(image: Image.Image) -> AbstractContextManager[object]:
    return _one_large if image.width * image.height > _LARGE else nullcontext()


def _blank(colours: Image.Image) -> str:
    levels = np.reshape(colours.histogram(), (3, 256))
    up_to = np.cumsum(levels, axis=1) / (colours.width * colours.height)  # (3, 256)
    lowest = (up_to > _STRAY).argmax(axis=1)
    highest = (up_to >= 1 - _STRAY).argmax(axis=1)
    if highest.max() < _BLACK:
        return "black"
    return "plain" if (highest - lowest).max() <= _PLAIN else ""


@dataclass(eq=False)
class _Survey:
    """What was seen of the N images of a listing.

    contents, pixels: checksums as in `Look`, (N, 16) uint8; zeros where an image is unreadable.
    blank: (N,) uint8, a position in `_BLANK`. unreadable: position → why. grey: how many are.
    """

    contents: npt.NDArray[np.uint8]
    pixels: npt.NDArray[np.uint8]
    blank: npt.NDArray[np.uint8]
    grey: int = 0
    unreadable: dict[int, str] = field(default_factory=dict)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)

    def add(self, position: int, seen: Look) -> None:
        self.contents[position] = np.frombuffer(seen.content, np.uint8)
        self.pixels[position] = np.frombuffer(seen.pixels, np.uint8)
        self.blank[position] = _BLANK.index(seen.blank)
        self.grey += seen.is_grey
        self.sizes[seen.width, seen.height] += 1
        self.modes[seen.mode] += 1
        self.formats[seen.format] += 1

    def same_pixels(self) -> list[list[int]]:
        """Positions of images that show the very same, two or more together; blank ones are not.

        Each group rises, and the groups rise by their first positions.
        """
        shows_something = self.blank == 0
        shows_something[list(self.unreadable)] = False
        chosen = np.flatnonzero(shows_something)
        high, low = self.pixels[chosen].view(np.uint64).T  # (n,) each
        order = np.lexsort((chosen, low, high))
        differs = (np.diff(high[order]) != 0) | (np.diff(low[order]) != 0)
        groups = np.split(chosen[order], np.flatnonzero(differs) + 1)
        return sorted(group.tolist() for group in groups if len(group) > 1)


def _look_at_all(listing: Listing, watch: Watch | None) -> _Survey:
    count = len(listing)
    survey = _Survey(
        np.zeros((count, _DIGEST), np.uint8),
        np.zeros((count, _DIGEST), np.uint8),
        np.zeros(count, np.uint8),
    )

    def look(position: int) -> Look:
        return look_at(listing.content(position), listing.paths[position])

    done = 0
    for outcomes in decode_many(in_chunks(range(count), _AT_ONCE), look):
        for position, outcome in outcomes:
            if isinstance(outcome, Exception):
                survey.unreadable[position] = reason(outcome, listing.paths[position])
            else:
                survey.add(position, outcome)
        done += len(outcomes)
        if watch is not None:
            watch(done, count)
    return survey


def _twins(group: list[int], listing: Listing, seen: _Survey) -> Twins:
    return Twins(
        tuple(group),
        tuple(listing.paths[i] for i in group),
        tuple(listing.names[i] for i in group),
        identical=len({seen.contents[i].tobytes() for i in group}) == 1,
    )


# What counts as a finding, and how it is said


def _serious_findings(check: DataCheck, parts: Sequence[str] | None) -> Iterator[Finding]:
    """What should be put right before training, worst first."""
    with_images = [name for name, count in check.per_identity.items() if count]
    if len(with_images) == 1:
        yield Finding(
            "alone",
            True,
            f"there is one identity only, {with_images[0]}: nothing to tell it from",
            "put the images of each identity into a folder of its own, named by it",
        )
    if check.across:
        one = len(check.across) == 1
        wrong = "one of its labels is wrong" if one else "of each, one of the labels is wrong"
        yield Finding(
            "labels",
            True,
            f"{_pictures(check.across)} under two identities or more: {wrong}",
            "look whom each shows, and remove it from the others",
            tuple(map(str, check.across)),
        )
    if parts is not None:
        yield from _leaks((*check.across, *check.within), parts)
    if check.unreadable:
        yield Finding(
            "unreadable",
            True,
            f"{plural(len(check.unreadable), 'image')} of {check.images:,} cannot be read, "
            "and will be left out",
            "fetch them again, or remove them",
            tuple(f"{path}: {why}" for path, why in check.unreadable),
        )
    if empty := [name for name, count in check.per_identity.items() if not count]:
        yield Finding(
            "empty",
            True,
            f"{_identities(empty)} no image that can be read",
            "fetch the images again, or remove the identity",
            tuple(empty),
        )
    if check.skipped:
        yield Finding(
            "skipped",
            True,
            f"{plural(len(check.skipped), 'entry', 'entries')} cannot be an image of an identity, "
            "and will be left out",
            "put right what is said of each, or remove it",
            tuple(f"{path}: {why}" for path, why in check.skipped),
        )
    for paths, what in ((check.black, "black, or nearly"), (check.plain, "all of one colour")):
        if paths:
            verb = "is" if len(paths) == 1 else "are"
            yield Finding(
                "blank",
                True,
                f"{plural(len(paths), 'image')} {verb} {what}: there is nothing to learn from",
                "remove them",
                paths,
            )


def _leaks(all_twins: Iterable[Twins], parts: Sequence[str]) -> Iterator[Finding]:
    """The same picture in two parts of a split that a table gives."""
    leaks = [
        twins for twins in all_twins if len({parts[position] for position in twins.positions}) > 1
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


def _other_findings(check: DataCheck, grey: int) -> Iterator[Finding]:
    """What is good to know."""
    if once := [name for name, count in check.per_identity.items() if count == 1]:
        yield Finding(
            "once",
            False,
            f"{_identities(once)} a single image, so similarity within them cannot be measured",
            "add images, if there are any",
            tuple(once),
        )
    if check.within:
        spare = sum(len(twins.positions) - 1 for twins in check.within)
        yield Finding(
            "repeated",
            False,
            f"{_pictures(check.within)} more than once under one identity: "
            f"{plural(spare, 'image')} too many, for pairs that are too easy",
            "keep one of each",
            tuple(map(str, check.within)),
        )
    if few := {name: count for name, count in check.per_identity.items() if 1 < count < _FEW}:
        yield Finding(
            "few",
            False,
            f"{_identities(few)} fewer than {_FEW} images, of which none is put aside for testing",
            "add images, if there are any",
            tuple(f"{name}: {count}" for name, count in few.items()),
        )
    if 0 < grey < check.readable:
        yield Finding(
            "mixed",
            False,
            f"grey and coloured images are mixed, {grey:,} and {check.readable - grey:,}: where "
            "that goes with the identity, the colour is learned, and not who it is",
            "train with one channel, so that all become grey",
        )


def _pictures(twins: Collection[Twins]) -> str:
    return f"{plural(len(twins), 'picture')} {'appears' if len(twins) == 1 else 'appear'}"


def _identities(names: Collection[str]) -> str:
    verb = "has" if len(names) == 1 else "have"
    return f"{plural(len(names), 'identity', 'identities')} {verb}"


def _with_identity(path: str, name: str) -> str:
    """A path, with the identity behind it where the path does not tell it."""
    return path if path.rpartition("/")[0] == name else f"{path} ({name})"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _most(counts: Mapping[str, int]) -> str:
    """The most frequent few, with their numbers where there are several."""
    if len(counts) == 1:
        return next(iter(counts))
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    text = ", ".join(f"{key} ({count:,})" for key, count in ordered[:_LISTED])
    return text + (f" and {len(ordered) - _LISTED:,} others" if len(ordered) > _LISTED else "")
