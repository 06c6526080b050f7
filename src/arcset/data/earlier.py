"""What an earlier run knew and held out, which a run that goes on from it keeps to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from arcset.data.dataset import ImageSet
from arcset.data.selection import Selection
from arcset.data.split import Split
from arcset.errors import OptionError

__all__ = ["Earlier"]


@dataclass(frozen=True)
class Earlier:
    """Names of identities, as they are called now: trained on, held out for validation, for test.

    Who was trained on once is never seen for the first time again: such identities cannot judge
    what goes on from there. `run` is what messages call the earlier run.
    """

    run: str
    known: frozenset[str]
    validation: frozenset[str] = frozenset()
    test: frozenset[str] = frozenset()

    def kept(self, split: Split, rule: Mapping[str, float | Sequence[str]]) -> Split:
        """The split that the shares of `rule` drew, with everybody of the earlier run in their
        old part; the new ones stay where they were drawn. Parts named by patterns stay as well.
        """
        drawn = {
            part: not isinstance(rule.get(part, 0.0), list | tuple)
            for part in ("validation", "test")
        }
        where = {name: part for part in ("train", *drawn) for name in getattr(split, part)}
        for name, part in where.items():
            if part != "train" and not drawn[part]:
                continue
            if name in self.known:
                where[name] = "train"
            elif name in self.validation and drawn["validation"]:
                where[name] = "validation"
            elif name in self.test and drawn["test"]:
                where[name] = "test"
        parts = {
            part: tuple(sorted(name for name, place in where.items() if place == part))
            for part in ("train", *drawn)
        }
        if len(parts["validation"]) < 2:  # too few to choose by, so they only stay unseen
            parts["test"] = tuple(sorted((*parts["test"], *parts["validation"])))
            parts["validation"] = ()
        if len(parts["test"]) < 2:
            raise OptionError(
                f"hold_out leaves {len(parts['test'])} identities for test that {self.run} was not "
                "trained on, and 2 are needed; take larger shares, or --hold-out none"
            )
        share = [len(parts[part]) / len(where) for part in ("train", *drawn)]
        return replace(
            split,
            fractions=(share[0], share[1], share[2]),
            train=parts["train"],
            validation=parts["validation"],
            test=parts["test"],
        )

    def check(self, selection: Selection) -> None:
        """Refuse, with `OptionError`, to hold out an identity that the earlier run knew."""
        for part in (selection.validation, selection.unseen):
            shared = sorted(self.known.intersection(_names(part))) if part is not None else []
            if shared:
                raise OptionError(
                    f"{len(shared):,} of the identities held out were in the training of "
                    f"{self.run}, as {shared[0]!r}, and would judge as if never seen: let them be "
                    "known, or remove them with --mapping"
                )


def _names(images: ImageSet) -> list[str]:
    return [images.class_names[label] for label in np.unique(images.labels)]
