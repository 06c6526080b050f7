"""How a run was trained, for the model card: its course, its settings, and how to do it again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from arcset.runs import Run, RunConfig
from arcset.text import duration, plural, without_folders
from arcset.training.card_text import code, table

__all__ = ["training"]

_LONGEST = 60  # characters of a list that is shown in full
_ELSEWHERE = ("data", "class_names", "shape")  # said in other places of the card
_AGAIN = """To train it again, in this folder:

```
arcset train --config config.toml --out again
```"""


def training(run: Run, data: str) -> str:
    """The section: epochs, time and weights kept, every setting, the command. data: its name."""
    lines = run.metrics()
    settings = [[code(key), code(value)] for key, value in [("data", data), *_settings(run.config)]]
    half = (len(settings) + 1) // 2
    left, right = settings[:half], [*settings[half:], *[["", ""]] * (len(settings) % 2)]
    rows = [[*one, *other] for one, other in zip(left, right, strict=True)]
    return "\n\n".join(
        [_course(run.config, lines), table(["setting", "value", "setting", "value"], rows), _AGAIN]
    )


def _course(config: RunConfig, lines: Sequence[Mapping[str, Any]]) -> str:
    """How training went, from the lines of metrics.jsonl."""
    if not lines:
        return "How training went is not recorded."
    seconds = sum(line.get("seconds", 0.0) for line in lines)
    done = f"{plural(len(lines), 'epoch')}" + (
        f" of {config.epochs:,}" if len(lines) < config.epochs else ""
    )
    said = [f"{done} in {duration(seconds)}, measuring not counted."]
    losses = [line["loss"] for line in lines if "loss" in line]
    if len(losses) > 1:
        said.append(f"The loss went from {losses[0]:.4g} to {losses[-1]:.4g}.")
    elif losses:
        said.append(f"The loss was {losses[0]:.4g}.")
    kept = [line for line in lines if line.get("kept")]
    if kept:
        best = kept[-1]
        found = ", ".join(_numbers(best.get("validation")))
        said.append(
            f"The weights are those of epoch {best['epoch']}, the best on the validation identities"
            f"{f' ({found})' if found else ''}."
        )
    else:
        said.append(f"The weights are those of epoch {lines[-1]['epoch']}.")
    return " ".join(said)


def _numbers(validation: Any) -> Iterator[str]:
    if isinstance(validation, Mapping):
        for name, value in validation.items():
            if isinstance(value, int | float):
                yield f"{str(name).replace('_', ' ')} {value:.4g}"
    elif isinstance(validation, int | float):
        yield f"{validation:.4g}"


def _settings(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Every setting that has a value, but for what stands elsewhere in the card."""
    for key, value in config.model_dump(mode="json", exclude_none=True).items():
        if key in ("split", "mapping"):
            yield key, f"{key}.json"  # the run's own copy
        elif key not in _ELSEWHERE and value not in ([], {}, ""):
            yield key, _setting(value)


def _setting(value: Any) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{key}={_setting(part)}" for key, part in value.items())
    elif isinstance(value, list):
        text = ", ".join(_setting(part) for part in value)
        if len(text) > _LONGEST:
            text = f"{_setting(value[0])}, … ({len(value):,} in all)"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = without_folders(str(value))
    return text
