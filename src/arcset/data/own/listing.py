"""What a user's own data holds, found without decoding a single image."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from arcset.errors import DataError

__all__ = ["FORMS", "PARTS", "Listing", "list_samples"]

FORMS = "a folder, CSV, Parquet, npz or .rec"  # what own data may be, for messages
PARTS = ("train", "validation", "test")

TABLES = (".csv", ".tsv", ".parquet")


class Listing(ABC):
    """Labelled samples that are not decoded yet.

    place: what the user named. kind: in words, as "folder tree".
    names: the identity of each sample (N).
    paths: where each sample is, as shown to people: relative to the place, always valid Unicode.
    parts: "train", "validation" or "test" of each sample, where a table says so; else None.
    skipped: (path, why) of what looks like a sample and cannot be one.
    notes: sentences about whatever else was passed over.
    """

    place: Path
    kind: str
    names: Sequence[str]
    paths: Sequence[str]
    parts: Sequence[str] | None = None
    skipped: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def content(self, index: int) -> bytes:
        """The file of sample `index`, undecoded; raises `DataError` that names the sample.

        Called from several threads at once.
        """


def list_samples(place: Path | str) -> Listing:
    """List the samples of a folder tree, a table (CSV, Parquet) or records (.rec).

    A folder that holds `train.rec` is one of records. Raises `DataError` with one sentence where
    nothing is there, it is none of these, or there is no sample in it.
    """
    place = Path(place)
    if not place.exists():
        raise DataError(f"{place} does not exist; name {FORMS}")
    if place.suffix.lower() == ".rec" or (place / "train.rec").is_file():
        from arcset.data.insightface.records import RecordListing  # built upon this module

        return RecordListing(place)
    if place.is_dir():
        from arcset.data.own.trees import TreeListing

        return TreeListing(place)
    if place.suffix.lower() in TABLES:
        from arcset.data.own.tables import TableListing

        return TableListing(place)
    raise DataError(f"{place} is none of the files that are read here; name {FORMS}")
