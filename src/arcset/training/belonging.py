"""Whose checkpoint it is: the settings and the data that a continued run must share with it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from arcset.errors import OptionError, RunError
from arcset.runs import RunConfig

__all__ = ["MAY_CHANGE", "Belonging", "changed"]

#: Settings of a run that may change when it is continued: how long, and what is kept on the way.
MAY_CHANGE = (
    "epochs",
    "patience",
    "validate_every",
    "frames",
    "checkpoint_minutes",
    "checkpoint_steps",
    "checkpoints",
)
_DEFAULTS = {name: known.default for name, known in RunConfig.model_fields.items()}
_LONG = 60  # letters of a value that a message shows


@dataclass(frozen=True)
class Belonging:
    """The settings that may not change, as JSON has them, and what is known of the data.

    samples: how many there are. labels: a digest of theirs, in order, and of the classes' names.
    """

    settings: dict[str, Any]
    samples: int
    labels: str

    @classmethod
    def of(cls, config: RunConfig, labels: Tensor) -> "Belonging":
        """Of a run with this configuration, trained on samples with these labels (N,)."""
        settings = config.model_dump(mode="json", exclude={*MAY_CHANGE, "class_names"})
        digest = hashlib.sha256(labels.cpu().numpy().tobytes())
        digest.update("\0".join(config.class_names or ()).encode())
        return cls(settings, len(labels), digest.hexdigest())

    def json(self) -> dict[str, Any]:
        """For a file."""
        return vars(self)

    def check(self, found: dict[str, Any], place: Path) -> None:
        """Refuse, with `RunError`, what a checkpoint at `place` says it belongs to, if that is
        something else."""
        theirs = found["settings"]
        for name in sorted({*self.settings, *theirs}):
            # A setting that is younger than the checkpoint had no other value than its default.
            ours, other = (each.get(name, _DEFAULTS.get(name)) for each in (self.settings, theirs))
            if ours != other:
                raise RunError(
                    f"{name} is {_shown(ours)} now, and the checkpoint {place} was written with "
                    f"{_shown(other)}: put it back, or train anew. Only {_listed()} may change"
                )
        if (found["samples"], found["labels"]) != (self.samples, self.labels):
            raise RunError(
                f"the data has changed since the checkpoint {place} was written: "
                f"{self.samples:,} samples to train on now, {found['samples']:,} then"
                f"{', with other labels' if found['samples'] == self.samples else ''}; train anew"
            )


def changed(config: RunConfig, changes: dict[str, Any]) -> RunConfig:
    """The configuration with `changes`, if these are such as a continued run may have.

    >>> config = RunConfig(data="mnist-sample", epochs=10)
    >>> changed(config, {"epochs": 20, "seed": 0}).epochs
    20
    >>> changed(config, {"seed": 1})
    Traceback (most recent call last):
    arcset.errors.OptionError: a run goes on with the seed that it began with, 0, not with 1; ...
    """
    new = config.replace(**changes)
    for name in changes:
        if name not in MAY_CHANGE and getattr(new, name) != getattr(config, name):
            raise OptionError(
                f"a run goes on with the {name} that it began with, "
                f"{_shown(getattr(config, name))}, not with {_shown(getattr(new, name))}; only "
                f"{_listed()} may change"
            )
    return new


def _listed() -> str:
    return f"{', '.join(MAY_CHANGE[:-1])} and {MAY_CHANGE[-1]}"


def _shown(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
