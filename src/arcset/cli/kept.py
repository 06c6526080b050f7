"""What `arcset train --from` says about the run that it begins from: before, and after."""

from typing import Any

from rich.table import Table
from rich.text import Text

from arcset.cli.output import say
from arcset.data import Selection
from arcset.errors import RunError
from arcset.reports.report import Section
from arcset.runs import Run
from arcset.runs.data import Earlier
from arcset.training.forgetting import forgetting, read_forgetting, shown

__all__ = ["kept_of_start", "kept_section", "kept_table", "tell_start"]

_TITLE = "Old and new identities, before and after"


def tell_start(earlier: Earlier, selection: Selection) -> None:
    """Which identities go on with their centers, and which are new."""
    names = set(selection.train.class_names)
    old, gone = len(names & earlier.known), len(earlier.known - names)
    left = f"; {gone:,} of its identities are not in the data" if gone else ""
    say(f"begins from {earlier.run}: {old:,} identities go on, {len(names) - old:,} are new{left}")
    taken = len(names & (earlier.validation | earlier.test))
    if taken:
        say(
            f"note: {taken:,} identities that {earlier.run} held out are trained on now; they can "
            "judge neither run any more"
        )


def kept_of_start(run: Run, selection: Selection, device: str) -> dict[str, Any] | None:
    """Measure what was kept of the run that this one began from, and write it; None without one."""
    if run.config.start is None:
        return None
    try:
        old = Run.open(run.config.start)
        old.load_model()
    except RunError:
        known = read_forgetting(run)
        if known is not None and known["epoch"] == len(run.metrics()):
            return known
        say(f"note: {run.config.start} is no longer there: what was forgotten is not measured")
        (run.path / "forgetting.json").unlink(missing_ok=True)
        return None
    found = forgetting(run, old, device=device, selection=selection)
    found.save(run)
    return found.json()


def kept_section(kept: dict[str, Any] | None) -> list[Section]:
    """For the report."""
    if kept is None:
        return []
    meaning = (
        f"Before is {kept['before']}, the run that training began from; after is this one. Every "
        "image searches the others of its group, and finds its own identity first or not; the old "
        "identities show what was forgotten. Intervals are of 95 %, over identities."
    )
    misleads = (
        "Each group is searched by itself, so that a smaller one is easier: compare before with "
        f"after, and not old with new. {kept['note']}"
    )
    return [Section(_TITLE, [], meaning, misleads.strip(), shown(kept))]


def kept_table(kept: dict[str, Any]) -> Table:
    """For the terminal."""
    heading, *rows = shown(kept)
    table = Table(*heading, title=Text(_TITLE), title_justify="left", caption=kept["note"] or None)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
