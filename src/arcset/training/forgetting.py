"""What a run that began from another has kept of it, and what it has gained.

Old and new identities, before and after: recall@1 and TAR on images that neither was trained on.
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from arcset.data import ImageSet, Samples, Selection
from arcset.devices import choose_device
from arcset.errors import InputError, OptionError, RunError
from arcset.evaluation import Difference, Result, paired, retrieval, verification
from arcset.evaluation.measures import short_name
from arcset.files import finite, parse_json, write_text
from arcset.runs import Run
from arcset.runs.data import selection_of
from arcset.runs.model import embed, load_model
from arcset.training.start import old_names

__all__ = ["GROUPS", "MEASURES", "Forgetting", "Kept", "forgetting", "read_forgetting", "shown"]

FAR = 1e-3
#: Which identities, with what their rows tell.
GROUPS = {
    "old": "identities that the earlier run knew: less than before is forgotten",
    "new": "identities that came in: what was gained",
    "known": "old and new together, each searched among all",
    "unseen": "identities that neither run was trained on",
}
#: What is measured, with the name that people read.
MEASURES = {name: short_name(name) for name in ("recall_at[1]", f"tar_at_far[{FAR:g}]")}
_MOST = 4_000  # images of a group: beyond, whole identities are left out, evenly
_BATCH = 1024  # images that are in memory at a time


@dataclass(frozen=True)
class Kept:
    """One measure of one group before and after, or why it is not known.

    change: how much better it is after, with its 95 % interval over identities.
    """

    group: str
    measure: str
    before: float = math.nan
    after: float = math.nan
    change: Difference | None = None
    why: str = ""

    def sentence(self) -> str:
        """The change in words, or why there is none."""
        if self.why:
            return self.why
        if self.change is not None:
            return self.change.sentence()
        return f"{100 * (self.after - self.before):+.1f} points"

    def json(self) -> dict[str, Any]:
        """As one object; what is not known is None."""
        content = {
            "group": self.group,
            "measure": self.measure,
            "before": self.before,
            "after": self.after,
            "change": None if self.change is None else self.change.gain,
            "interval": None if self.change is None else list(self.change.interval),
            "sentence": self.sentence(),
        }
        found: dict[str, Any] = finite(content)
        return found


@dataclass(frozen=True)
class Forgetting:
    """What was measured.

    before: the name of the run that was begun from. epoch: of the run after, when this was
    measured. sizes: identities and images per group. note: to be read before any figure.
    """

    before: str
    epoch: int
    rows: tuple[Kept, ...]
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    note: str = ""

    def json(self) -> dict[str, Any]:
        """As one object, the one that `save` writes."""
        groups = {
            name: {"identities": identities, "images": images, "meaning": GROUPS[name]}
            for name, (identities, images) in self.sizes.items()
        }
        rows = [row.json() for row in self.rows]
        return {
            "before": self.before,
            "epoch": self.epoch,
            "note": self.note,
            "groups": groups,
            "rows": rows,
        }

    def save(self, run: Run) -> Path:
        """Write RUN/forgetting.json, complete or not at all."""
        place = run.path / "forgetting.json"
        write_text(place, json.dumps(self.json(), indent=1) + "\n")
        return place


def shown(content: dict[str, Any]) -> list[list[str]]:
    """What `Forgetting.json` gives, as a table for people: a heading, and a line per measure."""
    lines = [["identities", "measure", "before", "after", "change"]]
    for row in content["rows"]:
        size = content["groups"].get(row["group"], {})
        who = f"{row['group']} ({size.get('identities', 0):,})"
        before, after = (
            "–" if row[when] is None else f"{100 * row[when]:.2f} %" for when in ("before", "after")
        )
        lines.append([who, row["measure"], before, after, row["sentence"]])
    return lines


def read_forgetting(run: Run) -> dict[str, Any] | None:
    """What `Forgetting.save` wrote, None where nothing was; `RunError` for a damaged file."""
    place = run.path / "forgetting.json"
    if not place.exists():
        return None
    try:
        content: dict[str, Any] = parse_json(place.read_text(encoding="utf-8"))
        if not {"before", "epoch", "note"} <= content.keys():
            raise ValueError("it does not hold what arcset writes")
        shown(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{place} is damaged: {error}") from None
    return content


def forgetting(
    run: Run,
    old: Run | None = None,
    *,
    device: str = "auto",
    selection: Selection | None = None,
    intervals: bool = True,
) -> Forgetting:
    """Judge a trained run beside the one that it began from, `old` (by default `config.start`).

    Every test image of a group searches all others of it, by cosine (recall@1), and all pairs are
    compared (TAR at a FAR of 1e-3): once as the old network embeds them and once as the new does.
    Differences are paired over identities. A group whose images are too few says so.

    Raises `OptionError` for a run that began from none, `RunError` where the old one is gone.
    """
    if old is None:
        if run.config.start is None:
            raise OptionError(f"{run.path} did not begin from another run: there is none before it")
        old = Run.open(run.config.start)
    selection = selection or selection_of(run)
    place = choose_device(device)
    networks = [load_model(each)[0].to(place) for each in (old, run)]
    known = {name for name in old_names(run, old) if name is not None}
    groups = _groups(selection, known)
    rows: list[Kept] = []
    sizes: dict[str, tuple[int, int]] = {}
    for name, (part, chosen) in groups.items():
        labels = np.zeros(0, np.int64) if part is None else part.labels[chosen]
        sizes[name] = (len(np.unique(labels)), len(chosen))
        if part is None or (why := _too_few(labels)):
            why = why if part is not None else "no image of them was kept from training"
            rows += [Kept(name, measure, why=why) for measure in MEASURES.values()]
            continue
        before, after = (_embeddings(each, part, chosen, place) for each in networks)
        rows += _measured(name, before, after, labels, intervals)
    return Forgetting(old.path.name, len(run.metrics()), tuple(rows), sizes, _note(run, old))


def _groups(
    selection: Selection, known: set[str]
) -> dict[str, tuple[ImageSet | None, npt.NDArray[np.int64]]]:
    """By name, the set that a group's images are in, and which of them."""
    test, unseen = selection.test, selection.unseen
    nothing = np.zeros(0, np.int64)
    found: dict[str, tuple[ImageSet | None, npt.NDArray[np.int64]]] = {}
    if test is None:
        found = {"old": (None, nothing), "new": (None, nothing)}
    else:
        old = np.array([name in known for name in test.class_names])[test.labels]
        found = {
            "old": (test, _evenly(test.labels, np.flatnonzero(old))),
            "new": (test, _evenly(test.labels, np.flatnonzero(~old))),
        }
        if old.any() and not old.all():
            found["known"] = (test, _evenly(test.labels, np.arange(len(test))))
    if unseen is not None:
        strange = np.array([name not in known for name in unseen.class_names])[unseen.labels]
        found["unseen"] = (unseen, _evenly(unseen.labels, np.flatnonzero(strange)))
    return found


def _evenly(labels: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The rows of so many identities, evenly chosen, that they are not too many."""
    if len(rows) <= _MOST:
        return rows
    names = np.unique(labels[rows])
    count = max(2, int(len(names) * _MOST / len(rows)))
    kept = names[np.linspace(0, len(names) - 1, count).round().astype(np.int64)]
    return rows[np.isin(labels[rows], kept)]


def _too_few(labels: npt.NDArray[np.int64]) -> str:
    counts = np.unique(labels, return_counts=True)[1]
    if len(counts) < 2 or counts.max() < 2:
        return f"too few images: {len(labels)} of {len(counts)} identities"
    return ""


def _embeddings(
    network: nn.Module, part: ImageSet, rows: npt.NDArray[np.int64], device: torch.device
) -> npt.NDArray[Any]:
    """(n, D) of the images `rows` (n,), of which few are in memory at a time."""
    samples = Samples(part, device)
    chunks = torch.from_numpy(rows).to(device).split(_BATCH)
    return torch.cat([embed(network, samples.take(chunk)).cpu() for chunk in chunks]).numpy()


def _measured(
    group: str,
    before: npt.NDArray[Any],
    after: npt.NDArray[Any],
    labels: npt.NDArray[np.int64],
    intervals: bool,
) -> list[Kept]:
    rows = []
    for measure, name in MEASURES.items():
        try:
            first, second = (_result(measure, each, labels, intervals) for each in (before, after))
        except InputError as error:
            rows.append(Kept(group, name, why=str(error)))
            continue
        ours, theirs = (result.measures()[measure] for result in (second, first))
        if math.isnan(ours) or math.isnan(theirs):
            rows.append(Kept(group, name, theirs, ours, why="too few pairs for this rate"))
            continue
        change = paired(second, first, measure) if intervals else None
        rows.append(Kept(group, name, theirs, ours, change))
    return rows


def _result(
    measure: str, embeddings: npt.NDArray[Any], labels: npt.NDArray[np.int64], intervals: bool
) -> Result:
    if measure.startswith("recall"):
        return retrieval(embeddings, labels, ks=(1,), intervals=intervals)
    return verification(embeddings, labels, (FAR,), intervals=intervals)


def _note(run: Run, old: Run) -> str:
    """What a reader must know before any figure."""
    if old.config.train_on == "all" and run.config.train_on == "train":
        return (
            f"{old.path.name} was trained on these images of the old identities as well, so that "
            "before looks better than it was."
        )
    return ""
