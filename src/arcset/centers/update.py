"""Updating the centers during the backward pass, chunk by chunk.

The gradient of W is as large as W. An optimizer needs it only once, row by row, so it need never
exist as a whole: as soon as a chunk's part is known it goes into the optimizer's state and the
chunk, which are in the cache at that moment.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from arcset.errors import OptionError
from arcset.numerics import lies_in, widen

if TYPE_CHECKING:
    from arcset.centers.storage import Centers

__all__ = ["UPDATES", "CenterUpdate", "build_update"]


class CenterUpdate(Optimizer):
    """An optimizer of the centers alone that works inside `backward()`.

    To the outside it is a torch optimizer with one parameter group: read or set
    `param_groups[0]["lr"]`, or hand it to any scheduler of torch. Its `step` has nothing left to
    do. Its state is a buffer of the centers, so it is saved and moved with the loss.

    Every backward pass is an update: where several are meant to add up to one step (gradient
    accumulation), use an ordinary optimizer. Clipping of gradients does not see the centers.
    Under a gradient scaler set `grad_scale = scaler.get_scale()` before the backward pass; a pass
    whose gradients are not finite leaves the centers as they were.
    """

    #: The name of the buffer that holds the state; None without one.
    state_name: str | None = None

    def __init__(self, centers: "Centers", defaults: dict[str, Any]) -> None:
        super().__init__([centers.weight], defaults)
        self.grad_scale = 1.0
        self._centers = centers

    @property
    def _group(self) -> dict[str, Any]:
        return self.param_groups[0]

    def configure(self, **options: float) -> None:
        """Set those of `options` that this kind of update has."""
        self._group.update({key: value for key, value in options.items() if key in self._group})

    def begin(self, *derivatives: Tensor) -> "CenterUpdate | None":
        """Called once per backward pass; None if its derivatives are not finite."""
        finite = all(bool(torch.isfinite(values).all()) for values in derivatives)
        return self if finite else None

    @torch.no_grad()
    def apply(self, where: slice, slope: Tensor, unit: Tensor, radial: Tensor) -> None:
        """Update the rows `where`, whose gradient is slope·unit − radial·W.

        `slope` (n, B), `unit` (B, D), `radial` (n,), all times `grad_scale`.
        """
        stored = self._centers.weight[where]
        rows = widen(stored).to(unit.dtype)
        if self.grad_scale != 1:
            unit, radial = unit / self.grad_scale, radial / self.grad_scale
        self._update(where, rows, slope, unit, self._group["weight_decay"] - radial)
        if rows.data_ptr() != stored.data_ptr():
            stored.copy_(rows)

    @abstractmethod
    def _update(
        self, where: slice, rows: Tensor, slope: Tensor, unit: Tensor, along: Tensor
    ) -> None:
        """Change `rows` in place, whose gradient with decay is slope·unit + along·rows."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Nothing: `backward()` has updated the centers already."""


class CenterSGD(CenterUpdate):
    """SGD with momentum (dampening 0) and weight decay, as torch.optim.SGD.

    Its defaults are those of `arcset train`.
    """

    def __init__(
        self,
        centers: "Centers",
        *,
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        nesterov: bool = False,
    ) -> None:
        checked = {
            "lr": _checked("lr", lr, 1e6),
            "momentum": _checked("momentum", momentum, 1.0),
            "weight_decay": _checked("weight_decay", weight_decay, 1e6),
            "nesterov": bool(nesterov),
        }
        if nesterov and not momentum:
            raise OptionError("nesterov needs a momentum above 0")
        super().__init__(centers, checked)
        if momentum:
            self.state_name = "momentum"
            centers.register_buffer("momentum", torch.zeros_like(centers.weight))

    def _update(
        self, where: slice, rows: Tensor, slope: Tensor, unit: Tensor, along: Tensor
    ) -> None:
        rate, keep = self._group["lr"], self._group["momentum"]
        if self.state_name is None:
            rows.mul_((1 - rate * along)[:, None]).addmm_(slope, unit, alpha=-rate)
            return
        stored: Tensor = getattr(self._centers, self.state_name)[where]
        momentum = widen(stored).to(rows.dtype)
        if self._group["nesterov"]:
            gradient = torch.mm(slope, unit).addcmul_(rows, along[:, None])
            momentum.mul_(keep).add_(gradient)
            rows.add_(gradient.add_(momentum, alpha=keep), alpha=-rate)
        else:
            momentum.addmm_(slope, unit, beta=keep).addcmul_(rows, along[:, None])
            rows.add_(momentum, alpha=-rate)
        if momentum.data_ptr() != stored.data_ptr():
            stored.copy_(momentum)


class CenterAdagrad(CenterUpdate):
    """Row-wise Adagrad: one sum of mean squared gradients per center instead of one per entry.

    W_j ← W_j − lr · g_j / (√a_j + eps), a_j ← a_j + mean(g_j²): the state is D times smaller than
    Adagrad's. Known from recommender systems' embedding tables (Gupta et al.: Training
    recommender systems at scale, 2020).
    """

    state_name = "squares"

    def __init__(
        self,
        centers: "Centers",
        *,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        checked = {
            "lr": _checked("lr", lr, 1e6),
            "weight_decay": _checked("weight_decay", weight_decay, 1e6),
            "eps": _checked("eps", eps, 1.0),
        }
        super().__init__(centers, checked)
        squares = torch.zeros(
            len(centers.weight), dtype=widen(centers.weight[:0]).dtype, device=centers.weight.device
        )
        centers.register_buffer("squares", squares)

    def _update(
        self, where: slice, rows: Tensor, slope: Tensor, unit: Tensor, along: Tensor
    ) -> None:
        gradient = torch.mm(slope, unit).addcmul_(rows, along[:, None])
        squares: Tensor = self._centers.squares[where]  # type: ignore[index]
        squares += gradient.square().mean(dim=1)
        rate = self._group["lr"] / (squares.sqrt() + self._group["eps"])  # (n,)
        rows.addcmul_(gradient, rate[:, None].to(rows.dtype), value=-1)


UPDATES: dict[str, type[CenterUpdate]] = {"sgd": CenterSGD, "adagrad": CenterAdagrad}


def build_update(kind: str, centers: "Centers", **options: Any) -> CenterUpdate:
    """The update called `kind`, sgd or adagrad."""
    if kind not in UPDATES:
        raise OptionError(f"update must be one of {', '.join(UPDATES)}, not {kind!r}")
    try:
        return UPDATES[kind](centers, **options)
    except TypeError:
        known = {"sgd": "lr, momentum, weight_decay, nesterov", "adagrad": "lr, weight_decay, eps"}
        given = ", ".join(options)
        raise OptionError(f"update {kind} takes {known[kind]}, not {given}") from None


def _checked(option: str, value: float, high: float) -> float:
    if not lies_in(value, 0, high):
        raise OptionError(f"{option} must lie in [0, {high:g}), not {value!r}")
    return float(value)
