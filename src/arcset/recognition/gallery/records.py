"""What a gallery tells about those it holds."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["Sample", "Subject", "as_time"]


def as_time(microseconds: int) -> datetime:
    """A moment as it is kept, in microseconds since 1970, with the time zone UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC)


@dataclass(frozen=True)
class Subject:
    """Somebody or something enrolled.

    Fields:
        name: what the gallery answers with.
        samples: how many embeddings it holds of this subject.
        added: when the first of these was enrolled.
    """

    name: str
    samples: int
    added: datetime

    def __str__(self) -> str:
        return f"{self.name}: {self.samples:,} samples since {self.added:%Y-%m-%d}"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**asdict(self), "added": self.added.isoformat()}


@dataclass(frozen=True)
class Sample:
    """One embedding of a subject.

    Fields:
        id: its number, never given to another sample of the gallery.
        source: the path or name that it came from; None where nobody said.
        digest: SHA-256 of the image's bytes, hexadecimal; None without an image.
        added: when it was enrolled.
        has_image: whether the gallery holds the image itself.
    """

    id: int
    source: str | None
    digest: str | None
    added: datetime
    has_image: bool

    def __str__(self) -> str:
        kept = ", image kept" if self.has_image else ""
        return f"{self.id}: {self.source or 'no source'}, {self.added:%Y-%m-%d}{kept}"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        return {**asdict(self), "added": self.added.isoformat()}
