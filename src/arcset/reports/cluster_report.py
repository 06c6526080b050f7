"""The page of groups: who was put together with whom, to look at."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.reports.page import choose_evenly, embed_image, write_page
from arcset.text import plural, sentence

#: Shown at most: groups, pictures of each, and pictures that are alone.
GROUPS, PICTURES, ALONE = 200, 24, 60

_WIDE = 6  # pictures from which on a group takes the whole width


@dataclass(frozen=True, eq=False)
class Member:
    """A picture of a group.

    name: its path. label: who it shows; None where that is not known.
    read: gives its pixels (H, W) or (H, W, 3); None where it cannot be shown.
    """

    name: str
    label: str | None
    read: Callable[[], npt.NDArray[np.uint8] | None]


def write_cluster_report(
    out: Path,
    groups: Sequence[Sequence[Member]],
    *,
    title: str,
    lead: Sequence[str],
    command: str = "",
) -> None:
    """Write `out`: one HTML file that needs nothing else, light or dark as the reader's system is.

    groups: the most typical picture of each first; only those that are shown are read.
    lead: what was done and how well, a sentence each. command: how to do it again.

    The page holds no script. The same input gives the same bytes.
    """
    several = [(number, group) for number, group in enumerate(groups, 1) if len(group) > 1]
    alone = [group[0] for group in groups if len(group) == 1]
    shown = [_group(number, group) for number, group in several[:GROUPS]]
    write_page(
        out,
        "cluster.html",
        title=title,
        lead=[sentence(line) for line in lead],
        is_mixed=any(group["is_mixed"] for group in shown),
        groups=shown,
        groups_left_out=len(several) - len(shown),
        alone=[_picture(member, member.label) for member in choose_evenly(alone, ALONE)],
        number_alone=len(alone),
        command=command,
    )


def _group(number: int, members: Sequence[Member]) -> dict[str, Any]:
    """A group as the page shows it; usual is the label that most of it have."""
    labels = Counter(member.label for member in members if member.label is not None)
    usual = max(labels, key=lambda label: (labels[label], label), default=None)
    described = [plural(len(members), "picture")]
    if usual is not None and len(labels) == 1:
        described.append(usual)
    elif usual is not None:
        rest = plural(len(labels) - 1, "other")
        described.append(
            f"{labels[usual]:,} of {usual}, {labels.total() - labels[usual]:,} of {rest}"
        )
    shown = choose_evenly(members, PICTURES)
    return {
        "number": number,
        "description": " · ".join(described),
        "is_mixed": len(labels) > 1,
        "is_wide": len(shown) > _WIDE,
        "pictures": [_picture(member, usual) for member in shown],
        "left_out": len(members) - len(shown),
    }


def _picture(member: Member, usual: str | None) -> dict[str, Any]:
    pixels = member.read()
    differs = member.label is not None and member.label != usual
    caption = str(member.label) if differs else member.name
    return {
        "name": member.name,
        "caption": caption.rpartition("/")[2],
        "differs": differs,
        "image": None if pixels is None else embed_image(pixels),
    }
