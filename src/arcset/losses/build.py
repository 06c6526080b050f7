"""Building any loss by name."""

import inspect
import logging
import warnings
from typing import Any

from arcset.centers.start import center_spacing
from arcset.errors import OptionError
from arcset.losses.auxiliary import AuxiliaryLoss
from arcset.losses.base import Loss
from arcset.losses.checks import check_count
from arcset.losses.defaults import default_scale
from arcset.losses.margin_softmax import MarginSoftmax
from arcset.losses.registry import LOSSES
from arcset.margins import MARGINS, Margin
from arcset.registry import unknown_name

__all__ = ["build_loss", "loss_names", "loss_options"]

logger = logging.getLogger("arcset")

_MODES = ("auto", "plain", "store", "recompute")


def loss_names() -> list[str]:
    """Every registered loss: each margin on class centers, and the others.

    >>> loss_names()[:4]
    ['arcface', 'center', 'combined', 'cosface']
    """
    return sorted({*LOSSES.names(), *MARGINS.names()})


def loss_options(name: str, **options: Any) -> dict[str, Any]:
    """The options that a loss takes beside `dim` and `classes`, with their defaults.

    None stands for "chosen from classes and dim". Losses built on another also take the base's
    options; name the base to see those: `loss_options("center", base="arcface")`.

        >>> loss_options("arcface")
        {'scale': None, 'margin': None, 'fallback': 'default', 'bias': False}
        >>> loss_options("softmax")
        {'bias': True}
    """
    if name in MARGINS and name in LOSSES:
        raise OptionError(f"both a margin and a loss are called {name!r}; rename one of them")
    if name in MARGINS:
        own = _keywords(MARGINS[name])
        fitted = dict.fromkeys(MARGINS[name].fitted(1.0))
        return {"scale": None, **own, **fitted, "bias": False}
    if name not in LOSSES:
        raise unknown_name("loss", name, loss_names())
    kind = LOSSES[name]
    own = _keywords(kind)
    if not issubclass(kind, AuxiliaryLoss):
        return own
    base = _base_name(kind, options)
    return {**loss_options(base), "base": kind.default_base, **own}


def build_loss(
    name: str,
    dim: int,
    classes: int,
    *,
    scale: float | None = None,
    margin: float | None = None,
    subcenters: int = 1,
    mode: str = "auto",
    sample: float = 1.0,
    group: object = None,
    **options: Any,
) -> Loss:
    """Build a loss by name; `arcset.loss_names()` lists them, `loss_options(name)` their options.

    `scale` and `margin` are chosen from `classes` and `dim` where not given (the choice is logged
    and stands in `loss.settings()`); a loss that has none says that it ignores them. This version
    computes the softmax in the `plain` way only: `mode="auto"` means that.

        >>> loss = build_loss("cosface", dim=128, classes=1000)
        >>> loss.settings()
        {'scale': 31.4, 'margin': 0.35}
        >>> build_loss("arcfaec", dim=128, classes=1000)
        Traceback (most recent call last):
        arcset.errors.OptionError: no loss is called 'arcfaec'; did you mean 'arcface'? Known: ...

    Raises:
        OptionError: an unknown name or option, or a value outside its range.
    """
    dim, classes = check_count("dim", dim, 1), check_count("classes", classes, 1)
    _check_storage(subcenters, mode, sample, group)
    known = loss_options(name, **options)
    for option in options:
        if option not in known:
            raise OptionError(
                f"{name} has no option {option!r}; it takes {', '.join(known) or 'none'}"
            )
    for option, value in (("scale", scale), ("margin", margin)):
        if value is None:
            continue
        if option in known:
            options[option] = value
        else:
            warnings.warn(f"{name} has no {option}: {option}={value} is ignored", stacklevel=2)
    return _build(name, dim, classes, options)


def _build(name: str, dim: int, classes: int, options: dict[str, Any]) -> Loss:
    if name in MARGINS:
        return _margin_softmax(name, dim, classes, options)
    kind = LOSSES[name]
    if not issubclass(kind, AuxiliaryLoss):
        return kind(dim, classes, **options)
    own = {key: options.pop(key) for key in _keywords(kind) if key in options}
    base = _base_name(kind, options)
    options.pop("base", None)
    return kind(_build(base, dim, classes, options), **own)


def _margin_softmax(name: str, dim: int, classes: int, options: dict[str, Any]) -> MarginSoftmax:
    given = dict(options)
    bias = given.pop("bias", False)
    scale = given.pop("scale", None)
    chosen: dict[str, float] = {}
    if scale is None:
        scale = chosen["scale"] = default_scale(classes, dim)
    for option, value in MARGINS[name].fitted(center_spacing(classes, dim)).items():
        if option not in given:
            given[option] = chosen[option] = round(value, 4)
    margin: Margin = MARGINS[name](**given)
    if chosen:
        choice = ", ".join(f"{option} {value:g}" for option, value in chosen.items())
        logger.info("%s: chose %s for %d classes in %d dimensions", name, choice, classes, dim)
    return MarginSoftmax(dim, classes, margin=margin, scale=scale, bias=bias)


def _base_name(kind: type[AuxiliaryLoss], options: dict[str, Any]) -> str:
    """The base that an added term is built on; it must have class centers of its own."""
    name: str = options.get("base", kind.default_base)
    alone = name in LOSSES and (
        issubclass(LOSSES[name], AuxiliaryLoss) or not LOSSES[name].classifies
    )
    if alone:
        fitting = [*MARGINS.names(), "softmax"]
        raise OptionError(f"base must be one of {', '.join(fitting)}, not {name!r}")
    return name


def _keywords(kind: type) -> dict[str, Any]:
    """The constructor's options with defaults: what follows dim, classes or base."""
    parameters = inspect.signature(kind).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }


def _check_storage(subcenters: int, mode: str, sample: float, group: object) -> None:
    if mode not in _MODES:
        raise OptionError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
    if mode in ("store", "recompute"):
        raise OptionError(f"mode {mode!r} is not part of this version; use 'plain' or 'auto'")
    if subcenters != 1:
        raise OptionError(f"subcenters={subcenters!r}: this version has one center per class")
    if sample != 1.0:
        raise OptionError(f"sample={sample!r}: this version uses all classes in every step")
    if group is not None:
        raise OptionError("group: this version keeps all centers in one process")
