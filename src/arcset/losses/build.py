"""Building any loss by name, with a scale and a margin that suit the number of classes."""

import inspect
import logging
import math
import warnings
from collections.abc import Callable
from typing import Any

from arcset.centers.init import center_spacing
from arcset.checks import check_count
from arcset.errors import OptionError
from arcset.losses.base import LOSSES, AuxiliaryLoss, Loss
from arcset.losses.margin_softmax import MarginSoftmax
from arcset.margins import MARGINS, Margin
from arcset.margins.base import Warmup
from arcset.registry import unknown_name, unknown_option

logger = logging.getLogger("arcset")


def loss_names() -> list[str]:
    """Every registered loss: each margin on class centers, and the others.

    >>> loss_names()[:4]
    ['adacos', 'adaface', 'arcface', 'center']
    """
    return sorted({*LOSSES.names(), *MARGINS.names()})


def loss_options(name: str, **options: Any) -> dict[str, Any]:
    """The options that a loss takes beside `dim` and `classes`, with their defaults.

    None stands for "chosen from classes and dim". Losses built on another also take the base's
    options; name the base to see those: `loss_options("center", base="arcface")`.

        >>> loss_options("arcface")
        {'scale': None, 'margin': None, 'fallback': 'default', 'subcenters': 1, 'mode': 'auto',
         'sample': 1.0, 'unbiased': True, 'storage': 'float32', 'bias': False,
         'label_smoothing': 0.0, 'ignore_index': None, 'gradient': 'exact', 'group': None,
         'warmup': 0, 'warmup_shape': 'linear', 'update': None}
        >>> loss_options("softmax")
        {'bias': True}
    """
    if name in MARGINS and name in LOSSES:
        raise OptionError(f"both a margin and a loss are called {name!r}; rename one of them")
    if name in MARGINS:
        kind = MARGINS[name]
        scale = {} if kind.finds_scale else {"scale": None}
        own = {**_keywords(kind), **dict.fromkeys(kind.default_options(1.0))}
        common = {**_keywords(MarginSoftmax), "warmup": 0, "warmup_shape": "linear", "update": None}
        return {**scale, **own, **common}
    if name not in LOSSES:
        raise unknown_name("loss", name, loss_names())
    loss = LOSSES[name]
    own = _keywords(loss)
    if not issubclass(loss, AuxiliaryLoss):
        return own
    base = _base_name(loss, options)
    return {**loss_options(base), "base": loss.default_base, **own}


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
    and stands in `loss.settings()`). `subcenters` is the number of centers per class. `mode` says
    how the softmax over the classes is computed: `plain` is the readable reference, `store` and
    `recompute` give the same numbers faster and in less memory, `auto` chooses. `sample` below 1
    lets only the batch's classes and so large a share of the others take part in a training step.
    A loss that has none of these says that it ignores them.

    Every margin also takes `label_smoothing`, `ignore_index`, `bias`, `gradient` (see
    `MarginSoftmax`), `warmup` (a number of training steps over which the margin comes in) and
    `warmup_shape`, and `update` (`sgd` or `adagrad`: see `Loss.fuse_update`).

        >>> loss = build_loss("cosface", dim=128, classes=1000)
        >>> loss.settings()
        {'scale': 31.4, 'margin': 0.35}
        >>> build_loss("arcfaec", dim=128, classes=1000)
        Traceback (most recent call last):
        arcset.errors.OptionError: no loss is called 'arcfaec'; did you mean 'arcface'? Known: ...

    Raises:
        OptionError: an unknown name or option, or a value outside its range.
    """
    dim, classes = check_count("dim", dim), check_count("classes", classes)
    known = loss_options(name, **options)
    for option in options:
        if option not in known:
            raise unknown_option(name, option, known)
    given = {
        "scale": scale,
        "margin": margin,
        "subcenters": subcenters,
        "mode": mode,
        "sample": sample,
        "group": group,
    }
    usual = _keywords(build_loss)
    for option, value in given.items():
        if option in known:
            if value != usual[option]:
                options[option] = value
        elif value != usual[option] and (option, value) != ("mode", "plain"):
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
    kind = MARGINS[name]
    given = dict(options)
    softmax = {key: given.pop(key) for key in _keywords(MarginSoftmax) if key in given}
    warmup = Warmup(given.pop("warmup", 0), given.pop("warmup_shape", "linear"))
    update = given.pop("update", None)
    chosen: dict[str, float] = {}
    scale = given.pop("scale", None)
    if scale is None:
        scale = default_scale(classes, dim)
        if not kind.finds_scale:
            chosen["scale"] = scale
    heeded = inspect.signature(kind.default_options).parameters  # some fit each kind differently
    asked = {option: given[option] for option in heeded if option in given}
    for option, value in kind.default_options(center_spacing(classes, dim), **asked).items():
        if option not in given:
            given[option] = chosen[option] = round(value, 4)
    margin: Margin = kind(**given)
    margin.warmup = warmup
    if chosen:
        choice = ", ".join(f"{option} {value:g}" for option, value in chosen.items())
        logger.info("%s: chose %s for %d classes in %d dimensions", name, choice, classes, dim)
    loss = MarginSoftmax(dim, classes, margin=margin, scale=scale, **softmax)
    if update is not None:
        loss.fuse_update(update)
    return loss


def _base_name(kind: type[AuxiliaryLoss], options: dict[str, Any]) -> str:
    """The base that an added term is built on; it must have class centers of its own."""
    name = options.get("base", kind.default_base)
    alone = name in LOSSES and (
        issubclass(LOSSES[name], AuxiliaryLoss) or not LOSSES[name].classifies
    )
    if alone or name not in loss_names():
        fitting = {*MARGINS.names(), "softmax"}
        raise unknown_name(f"base of {kind.__name__.lower()}", name, fitting)
    return str(name)


def _keywords(kind: Callable[..., Any]) -> dict[str, Any]:
    """The options with defaults that a constructor takes, or a function."""
    parameters = inspect.signature(kind).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }


def default_scale(classes: int, dim: int) -> float:
    """The scale where none is named, from the number of classes C and the dimension D.

    It is the one at which a sample a third of the way from its own center to the next is classified
    with 99 % certainty, if all other centers were as near as that next one. With φ the angle
    between neighbours (`center_spacing`):

        s = ln((C − 1) · 0.99 / 0.01) / (cos(φ/3) − cos(2φ/3)), kept within 8 … 64.

    A smaller scale bounds the logits so tightly that the loss cannot fall (`lowest_loss`), and
    keeps pulling at classes long since separated; a larger one stops pulling as soon as they are.

        >>> default_scale(5, 2), default_scale(1_000, 128), default_scale(100_000, 512)
        (24.5, 31.4, 44.0)
    """
    spacing = center_spacing(classes, dim)
    lead = math.cos(spacing / 3) - math.cos(2 * spacing / 3)
    wanted = math.log(max(classes - 1, 1) * 99)
    return round(min(max(wanted / max(lead, 1e-9), 8.0), 64.0), 1)


def lowest_loss(scale: float, classes: int) -> float:
    """The lowest loss that normalized softmax can reach at this scale, however well it separates.

    ln(1 + (C − 1) · exp(−s · C/(C − 1))), reached where every sample lies on its center and the
    centers form a regular simplex (D ≥ C − 1); with fewer dimensions it is higher still.
    Paper: Wang et al.: NormFace, 2017, proposition 2.

        >>> round(lowest_loss(1.0, 10), 3), round(lowest_loss(16.0, 10), 6)
        (1.377, 0.0)
    """
    if classes < 2:
        return 0.0
    return math.log1p((classes - 1) * math.exp(-scale * classes / (classes - 1)))
