"""Whether a user's data is in order before it is trained on: counts, broken files, wrong labels.

check = check_data("people")          # a folder tree, a table, records
print(check.table())                  # findings in plain words, worst first
contact_sheet(open_source("people").list_samples(), check).save("people.png")
"""

import hashlib
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from arcset.data.decode_many import Watch, decode_listing
from arcset.data.image import Pixels, is_grey, open_image, to_channels, turn_upright
from arcset.data.sources.base import Listing
from arcset.data.sources.load import open_source
from arcset.errors import DataError
from arcset.text import plural

_FEW = 5  # from so many images on, every fifth of an identity is set aside for testing
_BINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # the lower ends of the histogram's bins

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
        names = ["1", *(f"{low}–{end - 1}" for low, end in pairwise(_BINS[1:]))]
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
        sizes = {f"{width}×{height}": count for (width, height), count in self.sizes.items()}
        modes = {_MODES.get(mode, mode): count for mode, count in self.modes.items()}
        lines = [
            f"{self.place}: {self.kind}",
            "",
            f"images      {self.images:,}"
            + (f", {self.readable:,} of them readable" if self.unreadable else ", all readable"),
            f"identities  {len(counts):,} with {per_identity} images each"
            + (f", median {statistics.median(counts):g}" if few < many else ""),
            f"sizes       {_list_most_frequent(sizes)}",
            f"pixels      {_list_most_frequent(modes)}",
            f"formats     {_list_most_frequent(self.formats)}",
            "",
            *self._bars(),
            *self._findings_as_text(rows),
        ]
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """The same as plain data, with every example."""
        counts = self.per_identity.values()
        as_they_are = ("place", "kind", "images", "readable", "modes", "formats", "black", "plain")
        return {
            **{name: getattr(self, name) for name in (*as_they_are, "serious")},
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
            "unreadable": [{"path": path, "why": why} for path, why in self.unreadable],
            "skipped": [{"path": path, "why": why} for path, why in self.skipped],
            "across": [twins.json() for twins in self.across],
            "within": [twins.json() for twins in self.within],
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
            f"  {key:>{long}}  {count:>{wide},}  {'█' * -(-count * 32 // most)}".rstrip()
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
    """Look at every image of a folder tree, a table (CSV, Parquet), records, a pack or arrays.

    watch: called with the number of images done and of all, from time to time.

    Finds files that cannot be read; the same picture under two identities, which makes one of the
    labels wrong, and several times under one; images that show nothing; identities with one image
    or few. A picture is the same where every pixel is, whatever the file's format: one that was
    saved as JPEG twice is another. Blank images are not compared.

    Every image is decoded once, by several threads. Raises `DataError` where there is nothing to
    check, or no image can be read.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for path in ("anna/1.png", "anna/2.png", "bert/1.bmp"):
        ...         file = Path(folder, path)
        ...         file.parent.mkdir(exist_ok=True)
        ...         Image.radial_gradient("L").rotate(len(path) * ("2" in path)).save(file)
        ...     check = check_data(folder)
        >>> print(check.findings[0].text)
        1 picture appears under two or more identities: one of its labels is wrong
        >>> check.findings[0].examples
        ('anna/1.png = bert/1.bmp (other files, same pixels)',)
    """
    listing = source if isinstance(source, Listing) else open_source(source).list_samples()
    if listing.source.features:
        raise DataError(f"{listing.path} holds features, and only images can be looked at")
    _ = listing.parts  # a misspelled split is refused before anything is decoded

    def look(position: int) -> Look:
        return look_at(listing.content(position), listing.paths[position])

    looks: dict[int, Look] = {}
    unreadable: list[tuple[str, str]] = []
    for decoded in decode_listing(listing, range(len(listing)), look, unreadable, watch=watch):
        looks.update(decoded)
    if not looks:
        raise DataError(
            f"none of the {len(listing):,} images of {listing.path} can be read; "
            f"the first: {': '.join(unreadable[0])}"
        )
    per_identity = dict.fromkeys(listing.names, 0)
    for position in looks:
        per_identity[listing.names[position]] += 1
    black, plain = (
        tuple(listing.paths[position] for position, look in looks.items() if look.blank == kind)
        for kind in ("black", "plain")
    )
    twins = list(_find_twins(listing, looks))
    check = DataCheck(
        place=str(listing.path),
        kind=listing.kind,
        images=len(listing),
        per_identity=per_identity,
        sizes=Counter((look.width, look.height) for look in looks.values()),
        modes=Counter(look.mode for look in looks.values()),
        formats=Counter(look.format for look in looks.values()),
        unreadable=tuple(unreadable),
        skipped=tuple(listing.skipped),
        black=black,
        plain=plain,
        across=tuple(each for each in twins if len(set(each.names)) > 1),
        within=tuple(each for each in twins if len(set(each.names)) == 1),
    )
    grey = sum(look.is_grey for look in looks.values())
    return replace(check, findings=tuple(_find_problems(check, listing, grey)))


class Look(NamedTuple):
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


def look_at(content: bytes | Pixels, name: str) -> Look:
    """Decode a file's bytes, or take pixels as they are; raises `DataError` that begins with `name`
    where that is impossible.

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
    with open_image(content, name) as image:
        colours = to_channels(turn_upright(image), 3, name)
        digest = hashlib.sha256(b"%d %d " % colours.size)
        digest.update(np.asarray(colours).reshape(-1).data)
        return Look(
            content=hashlib.sha256(bytes(content)).digest()[:16],
            pixels=digest.digest()[:16],
            width=colours.width,
            height=colours.height,
            mode=image.mode,
            format=image.format or "array",
            is_grey=is_grey(image),
            blank=_judge_blank(colours),
        )


def _judge_blank(colours: Image.Image) -> str:
    stray = 0.0005  # share of the pixels at either end that does not count
    levels = np.reshape(colours.histogram(), (3, 256))
    up_to = np.cumsum(levels, axis=1) / (colours.width * colours.height)  # (3, 256)
    lowest = (up_to > stray).argmax(axis=1)
    highest = (up_to >= 1 - stray).argmax(axis=1)
    if highest.max() < 16:
        return "black"
    return "plain" if (highest - lowest).max() <= 8 else ""


def _find_twins(listing: Listing, looks: Mapping[int, Look]) -> Iterator[Twins]:
    """Images that show the very same, by the position of the first; blank ones are not compared."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for position, look in looks.items():
        if not look.blank:
            groups[look.pixels].append(position)
    for group in groups.values():
        if len(group) > 1:
            yield Twins(
                tuple(group),
                tuple(listing.paths[position] for position in group),
                tuple(listing.names[position] for position in group),
                identical=len({looks[position].content for position in group}) == 1,
            )


def _find_problems(check: DataCheck, listing: Listing, grey: int) -> Iterator[Finding]:
    """Everything that people should know, worst first. grey: how many images have no colours."""
    names = [name for name, count in check.per_identity.items() if count]
    if len(names) == 1:
        yield Finding(
            "alone",
            True,
            f"there is only one identity, {names[0]}, and nothing to tell it apart from",
            "put the images of each identity into a folder of its own, named by it",
        )
    for finding in (*_problems(check, listing.parts), *_remarks(check)):
        if finding.examples:
            yield finding
    if 0 < grey < check.readable:
        yield Finding(
            "mixed",
            False,
            f"grey and coloured images are mixed, {grey:,} and {check.readable - grey:,}: if that "
            "depends on the identity, training learns the colour instead",
            "train with one channel, so that all become grey",
        )
    for note in listing.notes:
        yield Finding("note", False, note, "")


def _problems(check: DataCheck, parts: Sequence[str] | None) -> Iterator[Finding]:
    """What should be put right before training; one without an example is not there."""
    one = len(check.across) == 1
    wrong = "one of its labels is wrong" if one else "of each, one of the labels is wrong"
    yield Finding(
        "labels",
        True,
        f"{_pictures(check.across)} under two or more identities: {wrong}",
        "look who each one shows, and remove it from the other identities",
        tuple(map(str, check.across)),
    )
    leaks = () if parts is None else _find_leaks((*check.across, *check.within), parts)
    yield Finding(
        "leaks",
        True,
        f"{_pictures(leaks)} in more than one part of the split: what is trained on is "
        "tested on, and the result will look better than it is",
        "keep each in one part",
        leaks,
    )
    yield Finding(
        "unreadable",
        True,
        f"{plural(len(check.unreadable), 'image')} of {check.images:,} cannot be read, "
        "and will be left out",
        "fetch them again, or remove them",
        tuple(f"{path}: {why}" for path, why in check.unreadable),
    )
    empty = tuple(name for name, count in check.per_identity.items() if not count)
    yield Finding(
        "empty",
        True,
        f"{_identities(empty)} no image that can be read",
        "fetch the images again, or remove the identity",
        empty,
    )
    yield Finding(
        "skipped",
        True,
        f"{plural(len(check.skipped), 'entry', 'entries')} cannot be used, and will be left out",
        "fix what is said about each, or remove it",
        tuple(f"{path}: {why}" for path, why in check.skipped),
    )
    for paths, what in ((check.black, "black, or nearly"), (check.plain, "all of one colour")):
        are = plural(len(paths), "image is", "images are")
        text = f"{are} {what}: there is nothing to learn from"
        yield Finding("blank", True, text, "remove them", paths)


def _remarks(check: DataCheck) -> Iterator[Finding]:
    """What is good to know; one without an example is not there."""
    once = tuple(name for name, count in check.per_identity.items() if count == 1)
    yield Finding(
        "once",
        False,
        f"{_identities(once)} a single image, so similarity within them cannot be measured",
        "add images, if there are any",
        once,
    )
    spare = sum(len(twins.positions) - 1 for twins in check.within)
    yield Finding(
        "repeated",
        False,
        f"{_pictures(check.within)} more than once under one identity: "
        f"{plural(spare, 'image')} too many, and pairs of them are too easy",
        "keep one of each",
        tuple(map(str, check.within)),
    )
    counts = check.per_identity.items()
    few = tuple(f"{name}: {count}" for name, count in counts if 1 < count < _FEW)
    yield Finding(
        "few",
        False,
        f"{_identities(few)} fewer than {_FEW} images, so none is set aside for testing",
        "add images, if there are any",
        few,
    )


def _find_leaks(all_twins: Collection[Twins], parts: Sequence[str]) -> tuple[str, ...]:
    """The same picture in two parts of a split that a table gives."""
    return tuple(
        " = ".join(
            f"{path} ({parts[position]})"
            for path, position in zip(twins.paths, twins.positions, strict=True)
        )
        for twins in all_twins
        if len({parts[position] for position in twins.positions}) > 1
    )


def _pictures(several: Collection[object]) -> str:
    return plural(len(several), "picture appears", "pictures appear")


def _identities(several: Collection[object]) -> str:
    return plural(len(several), "identity has", "identities have")


def _with_identity(path: str, name: str) -> str:
    """A path, with the identity behind it where the path does not tell it."""
    return path if path.rpartition("/")[0] == name else f"{path} ({name})"


def _list_most_frequent(counts: Mapping[str, int]) -> str:
    """The most frequent five, with their numbers where there are several."""
    if len(counts) == 1:
        return next(iter(counts))
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    text = ", ".join(f"{key} ({count:,})" for key, count in ordered[:5])
    return text + (f" and {len(ordered) - 5:,} others" if len(ordered) > 5 else "")
