"""What a check of own data found, to print and as plain data."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DataCheck", "Finding", "Twins", "counted"]

_BINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # the lower ends of the histogram's bins
_BAR = 32  # characters of its longest bar
_SHOWN = 5  # kinds of size, mode and format that the table names

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
        shown = " = ".join(labelled(*pair) for pair in zip(self.paths, self.names, strict=True))
        return shown if self.identical else f"{shown} (other files, same pixels)"

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
    findings: tuple[Finding, ...]

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
        ends = (*(low - 1 for low in _BINS[1:]), None)
        bins = {_span(low, end): 0 for low, end in zip(_BINS, ends, strict=True)}
        keys = list(bins)
        for count in self.per_identity.values():
            if count:
                bins[keys[sum(count >= low for low in _BINS) - 1]] += 1
        filled = [place for place, key in enumerate(keys) if bins[key]]
        return {key: bins[key] for key in keys[filled[0] : filled[-1] + 1]} if filled else {}

    def table(self, rows: int = 10) -> str:
        """Everything as plain text, with up to `rows` examples of each finding."""
        counts = self.per_identity.values()
        lines = [
            f"{self.place}: {self.kind}",
            "",
            f"images      {self.images:,}{self._of_which()}",
            f"identities  {len(counts):,} with {_range(counts)} images each"
            + (f", median {statistics.median(counts):g}" if len(set(counts)) > 1 else ""),
            f"sizes       {_most(self.sizes, lambda size: f'{size[0]}×{size[1]}')}",
            f"pixels      {_most(self.modes, lambda mode: _MODES.get(mode, mode))}",
            f"formats     {_most(self.formats, str)}",
            "",
            *self._bars(),
            *self._found(rows),
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
                {
                    "kind": finding.kind,
                    "serious": finding.serious,
                    "text": finding.text,
                    "advice": finding.advice,
                }
                for finding in self.findings
            ],
        }

    def _of_which(self) -> str:
        return f", {self.readable:,} of them readable" if self.unreadable else ", all readable"

    def _bars(self) -> list[str]:
        bins = self.histogram()
        most = max(bins.values())
        long, wide = max(map(len, bins)), len(f"{most:,}")
        lines = [
            f"  {key:>{long}}  {count:>{wide},}  {'█' * -(-count * _BAR // most)}".rstrip()
            for key, count in bins.items()
        ]
        return ["identities by their images", *lines, ""]

    def _found(self, rows: int) -> list[str]:
        if not self.findings:
            return ["No problems found."]
        serious = sum(finding.serious for finding in self.findings)
        must = f"{serious} that must be fixed" if serious else "nothing that must be fixed"
        lines = [f"{counted(len(self.findings), 'note')}, {must}"]
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {'FIX: ' if finding.serious else ''}{finding.text}"]
            lines += [f"     {example}" for example in finding.examples[:rows]]
            if len(finding.examples) > rows > 0:
                lines.append(f"     … and {len(finding.examples) - rows:,} more")
            if finding.advice:
                lines.append(f"   → {finding.advice}")
        return lines


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "image"), counted(2000, "image"), counted(2, "identity", "identities")
    ('1 image', '2,000 images', '2 identities')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def labelled(path: str, name: str) -> str:
    """A path, with the identity behind it where the path does not tell it.

    >>> labelled("anna/1.png", "anna"), labelled("train.rec#7", "12")
    ('anna/1.png', 'train.rec#7 (12)')
    """
    return path if path.rpartition("/")[0] == name else f"{path} ({name})"


def _span(low: int, end: int | None) -> str:
    if end is None:
        return f"{low:,} or more"
    return str(low) if low == end else f"{low}–{end}"


def _range(counts: Any) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _most(counts: Mapping[Any, int], name: Any) -> str:
    """The most frequent few, with their numbers where there are several."""
    if len(counts) == 1:
        return str(name(next(iter(counts))))
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name(key)} ({count:,})" for key, count in ordered[:_SHOWN])
    return shown + (f" and {len(ordered) - _SHOWN:,} others" if len(ordered) > _SHOWN else "")
