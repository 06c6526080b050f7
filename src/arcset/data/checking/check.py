"""The check of own data before it is trained on."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from arcset.data.checking.result import DataCheck, Twins
from arcset.data.checking.rules import findings
from arcset.data.checking.survey import Survey, survey
from arcset.data.own.decoding import Watch
from arcset.data.own.listing import Listing, list_samples
from arcset.errors import DataError

__all__ = ["check_data"]


def check_data(place: Path | str | Listing, watch: Watch | None = None) -> DataCheck:
    """Look at every image of a folder tree, a table (CSV, Parquet) or records (.rec).

    watch: called with the number of images done and of all, from time to time.

    Finds files that cannot be read; the same picture under two identities, which makes one of the
    labels wrong, and several times under one; images that show nothing; identities with one image
    or few. A picture is the same where every pixel is, whatever the file's format: one that was
    saved as JPEG twice is another. Blank images are not compared.

    Every image is decoded once, by several threads; 33 bytes are kept of each. Raises `DataError`
    where there is nothing to check, or no image can be read.

        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
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
    listing = place if isinstance(place, Listing) else list_samples(place)
    seen = survey(listing, watch)
    if len(seen.unreadable) == len(listing):
        raise DataError(
            f"none of the {len(listing):,} images of {listing.place} can be read; "
            f"the first: {listing.paths[0]}: {seen.unreadable[0]}"
        )
    twins = [_twins(group, listing, seen) for group in seen.same_pixels()]
    check = DataCheck(
        place=str(listing.place),
        kind=listing.kind,
        images=len(listing),
        per_identity=_counts(listing, seen),
        sizes=seen.sizes,
        modes=seen.modes,
        formats=seen.formats,
        unreadable=tuple((listing.paths[i], why) for i, why in seen.unreadable.items()),
        skipped=tuple(listing.skipped),
        black=tuple(listing.paths[i] for i in seen.blanks("black")),
        plain=tuple(listing.paths[i] for i in seen.blanks("plain")),
        across=tuple(pair for pair in twins if len(set(pair.names)) > 1),
        within=tuple(pair for pair in twins if len(set(pair.names)) == 1),
        findings=(),
    )
    return replace(check, findings=findings(check, listing))


def _counts(listing: Listing, seen: Survey) -> Counter[str]:
    """Readable images by identity, those of nought included, in the order of the listing."""
    counts = Counter[str]()
    for name, readable in zip(listing.names, seen.readable.tolist(), strict=True):
        counts[name] += readable
    return counts


def _twins(group: list[int], listing: Listing, seen: Survey) -> Twins:
    return Twins(
        tuple(group),
        tuple(listing.paths[i] for i in group),
        tuple(listing.names[i] for i in group),
        identical=len({seen.contents[i].tobytes() for i in group}) == 1,
    )
