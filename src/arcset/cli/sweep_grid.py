"""From `--set KEY=v1,v2` to the points of a grid, each with the configuration that it comes to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from arcset.cli.settings import chosen_config
from arcset.data import Dataset
from arcset.errors import OptionError
from arcset.losses import loss_options
from arcset.registry import did_you_mean
from arcset.runs import RunConfig
from arcset.runs.settings import parse_setting, parse_value
from arcset.training.sweep import SAME, Point

__all__ = ["Span", "read_values", "span"]

_WHOLE = ("classes", "split", "hold_out", "mapping")  # a comma stands within one value of these
_INSTEAD = {  # settings that a sweep has in another way, or not at all
    "seed": "say how many with --seeds",
    "data": "name the data before the options",
    "start": "a sweep trains from the beginning; see arcset train --from",
}
_OF_LOSS = ("scale", "margin")  # settings of the run that not every loss has


@dataclass
class Span:
    """What the command line asks for.

    grid: the values of each setting that varies. points: the different ones, the last setting
    varying fastest. notes: what is ignored, said once each.
    """

    grid: dict[str, list[Any]]
    points: list[Point] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_values(settings: list[str]) -> dict[str, list[str]]:
    """The values of each setting, as text.

    >>> read_values(["margin=0.2,0.3", "augment=none,affine:rotate=10+flip", "hold_out=0.1,0.2"])
    {'margin': ['0.2', '0.3'], 'augment': ['none', 'affine:rotate=10,flip'],
     'hold_out': ['0.1,0.2']}
    """
    found: dict[str, list[str]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip()
        if not equals:
            raise OptionError(f"--set {setting}: write KEY=VALUE, or KEY=VALUE,VALUE,… to vary it")
        if key in found:
            raise OptionError(f"--set {key} stands twice: write its values as {key}=A,B")
        if key in _INSTEAD:
            raise OptionError(f"--set {setting}: {_INSTEAD[key]}")
        values = [text] if key in _WHOLE else [value.strip() for value in text.split(",")]
        if len(values) > 1 and "" in values:
            raise OptionError(f"--set {setting}: a value is empty")
        if key == "augment":
            values = [value.replace("+", ",") for value in values]
        if len(values) > 1 and key in SAME:
            raise OptionError(
                f"--set {setting}: {key} says what the runs are judged by, and takes one value"
            )
        found[key] = values
    return found


def span(
    given: dict[str, Any],
    settings: list[str],
    *,
    recipe: str | None,
    read: Callable[[RunConfig], Dataset | None],
) -> Span:
    """Every combination of the values, without those that come to the same run.

    given: options of the command line. read: own data, as a configuration has it read; None for a
    named dataset.
    """
    texts = read_values(settings)
    varied = {key: values for key, values in texts.items() if len(values) > 1}
    if not varied:
        raise OptionError("nothing varies: give a setting several values, as --set margin=0.2,0.3")
    found = Span({key: _distinct(key, values) for key, values in varied.items()})
    heeded: set[str] = set()
    losses: dict[str, dict[str, Any]] = {}
    for chosen in product(*texts.values()):
        point = dict(zip(texts, chosen, strict=True))
        config, loss, ignored = _configured(given, point, recipe, read, losses)
        heeded.update(key for key in point if key not in ignored)
        for key in ignored:
            note = f"{loss} has no {key}, and ignores it"
            found.notes += [] if note in found.notes else [note]
        values = {k: _value(k, point[k]) for k in varied if k not in ignored}
        if all(config != other.config for other in found.points):
            found.points.append(Point(values, config))
    for key in texts:
        if key not in heeded and (key in varied or key not in _OF_LOSS):
            takes = list(dict.fromkeys(name for known in losses.values() for name in known))
            hint = did_you_mean(key, [*RunConfig.model_fields, *takes])
            raise OptionError(
                f"--set {key}={','.join(texts[key])}: no setting is called {key!r}, and "
                f"{' or '.join(losses)} has no such option; "
                + (hint or f"it takes {', '.join(takes) or 'none'}")
            )
    return found


def _configured(
    given: dict[str, Any],
    point: dict[str, str],
    recipe: str | None,
    read: Callable[[RunConfig], Dataset | None],
    losses: dict[str, dict[str, Any]],
) -> tuple[RunConfig, str, list[str]]:
    """The configuration of a point, its loss, and what of the point that loss does not have.

    Enters into `losses` which options it has.
    """
    of_run = [f"{key}={text}" for key, text in point.items() if not _of_loss(key)]
    own = {key: _value(key, text) for key, text in point.items() if _of_loss(key)}
    dataset = read(chosen_config(given, recipe=recipe, settings=of_run, quiet=True))
    plain = chosen_config(given, recipe=recipe, settings=of_run, dataset=dataset, quiet=True)
    known = loss_options(plain.loss, **{**plain.options, **own})
    losses[plain.loss] = known
    asked = [*own, *(key for key in _OF_LOSS if key in given and key not in own)]
    ignored = [key for key in asked if key not in known]
    heeded = [f"{key}={text}" for key, text in point.items() if key not in ignored]
    config = chosen_config(given, recipe=recipe, settings=heeded, dataset=dataset, quiet=True)
    return config, plain.loss, ignored


def _of_loss(key: str) -> bool:
    """Whether it depends on the loss that there is such a setting."""
    return key in _OF_LOSS or key == "options" or key not in RunConfig.model_fields


def _value(key: str, text: str) -> Any:
    """As JSON has it."""
    if key == "loss":
        return text
    return parse_setting(key, text) if key in RunConfig.model_fields else parse_value(text)


def _distinct(key: str, texts: list[str]) -> list[Any]:
    values = [_value(key, text) for text in texts]
    for place, value in enumerate(values):
        if value in values[:place]:
            raise OptionError(f"--set {key}={','.join(texts)} names {texts[place]} twice")
    return values
