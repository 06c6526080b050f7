"""Updating the centers during the backward pass, chunk by chunk.

The gradient of W is as large as W. An optimizer needs it only once, row by row, so it need never
exist as a whole: as soon as a chunk's part is known it goes into the optimizer's state and the
chunk, which are in the cache at that moment.
"""

import inspect
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from arcset.checks import check_bool, check_choice, check_number
from arcset.errors import OptionError
from arcset.numerics import common_dtype, widen

if TYPE_CHECKING:
    from arcset.centers.storage import Centers

_PIECE = 1024  # rows of W that fit into the cache beside those of its gradient or momentum
_STRONGEST = 0.1  # share of its length by which decay shortens a center at once
_LOW = 0xFFFF  # the bits of float32 that bfloat16 does not have
#: Names of the buffers in which updates keep their state.
STATES = ("momentum", "squares")


class CenterUpdate(Optimizer):
    """An optimizer of the centers alone that works inside `backward()`.

    To the outside it is a torch optimizer with one parameter group: read or set
    `param_groups[0]["lr"]`, or hand it to any scheduler of torch. Its `step` has nothing left to
    do, but schedulers want it to be called. Its state is a buffer of the centers, so it is saved
    and moved with the loss.

    In training mode every backward pass is an update, and there is one per forward pass: where
    several are meant to add up to one step (gradient accumulation), or where several processes
    average their gradients, use an ordinary optimizer. Clipping of gradients and hooks on the
    parameter do not see the centers. `torch.autograd.grad(loss, x)` updates nothing.

    Centers in bfloat16 are computed with in float32 and rounded at random when they are written
    back, so that small steps are not lost; the momentum of such centers is bfloat16, too.

    Under a gradient scaler set `grad_scale = scaler.get_scale()` before the backward pass, and do
    not hand this optimizer to the scaler. Derivatives that are not finite at the loss leave the
    centers as they were; what overflows further down in the network is not seen here.
    """

    def __init__(self, centers: "Centers", defaults: dict[str, Any]) -> None:
        super().__init__([centers.weight], defaults)
        self.grad_scale = 1.0
        self._centers = centers
        self._noise = Noise()

    def __getstate__(self) -> dict[str, Any]:
        own = {"grad_scale": self.grad_scale, "_centers": self._centers, "_noise": Noise()}
        return {**super().__getstate__(), **own}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused after the first, which holds the centers."""
        if self.param_groups:
            raise OptionError("a fused update holds the class centers and nothing else")
        super().add_param_group(param_group)

    def check(self, weight: Tensor) -> None:
        """Raise unless `weight`, which a forward pass is about to use, is what is updated."""
        if weight is not self._group["params"][0]:
            raise OptionError(
                "a fused update works on the loss's own centers only: neither through "
                "torch.func.functional_call nor under a parametrization"
            )

    @property
    def _group(self) -> dict[str, Any]:
        return self.param_groups[0]

    def configure(self, **options: float) -> None:
        """Set those of `options` that this kind of update has."""
        self._group.update({key: value for key, value in options.items() if key in self._group})

    def begin(self, *derivatives: Tensor) -> "CenterUpdate | None":
        """Called once per backward pass; None if its derivatives are not finite.

        A second one of the same forward pass never comes here: torch sees that the centers, which
        it has saved for it, were changed.
        """
        self._noise.renew()
        finite = all(bool(torch.isfinite(values).all()) for values in derivatives)
        return self if finite else None

    @torch.no_grad()
    def apply(
        self,
        where: slice | Tensor,
        slope: Tensor,
        unit: Tensor,
        radial: Tensor,
        weights: Tensor | None = None,
    ) -> None:
        """Update the rows `where`, a slice or their numbers, of gradient slope·unit − radial·W.

        `slope` (n, B), `unit` (B, D), `radial` (n,), all times `grad_scale`. Where a row is updated
        by chance, `weights` (n,) says how many steps it stands for: so often it decays.
        """
        if self.grad_scale != 1:
            unit, radial = unit / self.grad_scale, radial / self.grad_scale
        along = self._decay(weights) - radial
        for part, piece in pieces(where, slope.device):
            rows = widen(self._centers.weight[piece]).to(unit.dtype)
            self._update(piece, rows, slope[part], unit, along[part])
            self._store(rows, self._centers.weight, piece)

    def _decay(self, weights: Tensor | None) -> Tensor | float:
        """The weight decay of rows that stand for so many steps; for the rarest less than that."""
        decay: float = self._group["weight_decay"]
        if weights is None:
            return decay
        most = max(decay, _STRONGEST / max(self._group["lr"], _STRONGEST))
        return (decay * weights).clamp(max=most)

    @abstractmethod
    def _update(
        self, where: slice | Tensor, rows: Tensor, slope: Tensor, unit: Tensor, along: Tensor
    ) -> None:
        """Change `rows` in place, whose gradient with decay is slope·unit + along·rows."""

    def _store(self, values: Tensor, whole: Tensor, where: slice | Tensor) -> None:
        """Write rows back where they are copies, saturated to what a narrower type can hold.

        To bfloat16 they are rounded at random, see `round_stochastic`.
        """
        if isinstance(where, slice) and values.data_ptr() == whole[where].data_ptr():
            return
        if whole.dtype == torch.bfloat16:
            wide = values.float()
            values = round_stochastic(wide, self._noise.like(wide))
        elif values.dtype != whole.dtype:
            limit = torch.finfo(whole.dtype).max
            values = values.clamp(-limit, limit).to(whole.dtype)
        whole[where] = values

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
            "lr": check_number("lr", lr, 0, 1e6),
            "momentum": check_number("momentum", momentum, 0, 1),
            "weight_decay": check_number("weight_decay", weight_decay, 0, 1e6),
            "nesterov": check_bool("nesterov", nesterov),
        }
        if nesterov and not momentum:
            raise OptionError("nesterov needs a momentum above 0")
        super().__init__(centers, checked)
        first = torch.zeros_like(centers.weight, requires_grad=False) if momentum else None
        centers.set_state("momentum", first)

    def _update(
        self, where: slice | Tensor, rows: Tensor, slope: Tensor, unit: Tensor, along: Tensor
    ) -> None:
        rate, keep = self._group["lr"], self._group["momentum"]
        state = self._centers._buffers.get("momentum")
        if state is None and not keep:
            rows.mul_((1 - rate * along)[:, None]).addmm_(slope, unit, alpha=-rate)
            return
        if state is None:  # a momentum that a scheduler has set since
            state = torch.zeros_like(self._centers.weight, requires_grad=False)
            self._centers.set_state("momentum", state)
        momentum = widen(state[where]).to(rows.dtype)
        if self._group["nesterov"]:
            gradient = torch.mm(slope, unit).addcmul_(rows, along[:, None])
            momentum.mul_(keep).add_(gradient)
            rows.add_(gradient.add_(momentum, alpha=keep), alpha=-rate)
        else:
            momentum.addmm_(slope, unit, beta=keep).addcmul_(rows, along[:, None])
            rows.add_(momentum, alpha=-rate)
        self._store(momentum, state, where)


class CenterAdagrad(CenterUpdate):
    """Row-wise Adagrad: one sum of mean squared gradients per center instead of one per entry.

    a_j ← a_j + mean(g_j²), then W_j ← W_j − lr · g_j / (√a_j + eps): the state is D times smaller
    than Adagrad's. Known from recommender systems' embedding tables (Gupta et al.: Training
    recommender systems at scale, 2020).
    """

    def __init__(
        self,
        centers: "Centers",
        *,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        checked = {
            "lr": check_number("lr", lr, 0, 1e6),
            "weight_decay": check_number("weight_decay", weight_decay, 0, 1e6),
            "eps": check_number("eps", eps, 0, 1),
        }
        super().__init__(centers, checked)
        rows = centers.weight
        squares = torch.zeros(len(rows), dtype=common_dtype(rows), device=rows.device)
        centers.set_state("squares", squares)

    def _update(
        self, where: slice | Tensor, rows: Tensor, slope: Tensor, unit: Tensor, along: Tensor
    ) -> None:
        gradient = torch.mm(slope, unit).addcmul_(rows, along[:, None])
        squares = self._centers.squares[where]
        squares += gradient.square().mean(dim=1)
        self._store(squares, self._centers.squares, where)
        rate = self._group["lr"] / (squares.sqrt() + self._group["eps"])  # (n,)
        rows.addcmul_(gradient, rate[:, None].to(rows.dtype), value=-1)


UPDATES: dict[str, type[CenterUpdate]] = {"sgd": CenterSGD, "adagrad": CenterAdagrad}


def build_update(kind: str, centers: "Centers", **options: Any) -> CenterUpdate:
    """The update called `kind`, sgd or adagrad."""
    check_choice("update", kind, UPDATES)
    known = [name for name in inspect.signature(UPDATES[kind]).parameters if name != "centers"]
    for option in options:
        if option not in known:
            raise OptionError(f"update {kind} takes {', '.join(known)}, not {option}")
    return UPDATES[kind](centers, **options)


def pieces(where: slice | Tensor, device: torch.device) -> Iterator[tuple[slice, slice | Tensor]]:
    """The rows `where` by pieces that stay in a CPU's cache: within them, and among all rows."""
    start, stop = (where.start, where.stop) if isinstance(where, slice) else (0, len(where))
    size = _PIECE if device.type == "cpu" else stop - start
    for first in range(start, stop, size):
        last = min(first + size, stop)
        part = slice(first - start, last - start)
        yield part, slice(first, last) if isinstance(where, slice) else where[part]


def round_stochastic(values: Tensor, noise: Tensor) -> Tensor:
    """float32 to bfloat16, up or down by `noise`: whole numbers in 0 … 65535, as many (int32).

    bfloat16 has eight significant bits: a step of less than a 512th of an entry is lost when it is
    rounded to the nearest, however often it is taken. Rounded up or down at random, with the
    probability that makes the mean right, it is taken now and then, and on average as it should be.
    What bfloat16 can hold stays; the mean over all noise is the value itself.

        >>> round_stochastic(torch.full((2,), 1 / 3), torch.tensor([0, 65535], dtype=torch.int32))
        tensor([0.3320, 0.3340], dtype=torch.bfloat16)
    """
    limit = torch.finfo(torch.bfloat16).max
    bits = values.clamp(-limit, limit).view(torch.int32)  # sign and size: larger away from 0
    return (bits + noise).bitwise_and_(~_LOW).view(torch.float32).to(torch.bfloat16)


class Noise:
    """Random numbers for rounding, drawn once a step and used for every piece of rows.

    Entries of different pieces share their draw: each is still rounded rightly on average.
    """

    def __init__(self) -> None:
        self._drawn: Tensor | None = None

    def renew(self) -> None:
        """Draw anew at the next use."""
        self._drawn = None

    def like(self, values: Tensor) -> Tensor:
        """Numbers in 0 … 65535, one for each of the values (n, D)."""
        drawn = self._drawn
        if drawn is None or drawn.numel() < values.numel():
            words = torch.empty(-(-values.numel() // 4), dtype=torch.int64, device=values.device)
            words.random_(-(2**63), None)  # all 64 bits: four numbers
            drawn = self._drawn = words.view(torch.int16).to(torch.int32).bitwise_and_(_LOW)
        return drawn[: values.numel()].view(values.shape)
