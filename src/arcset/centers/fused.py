"""The softmax over class centers by chunks of classes: the same numbers, less time and memory.

With a target and its negatives, −log softmax is softplus(ln Σ_{j≠y} exp z_j − z_y). So the walk
over all classes need only bring back two numbers per sample, the target's cosine and the sum over
the negatives; the margin then acts on B target cosines in ordinary torch operations, and what
autograd has to say about those two numbers is all that the walk back needs to know.

Per chunk of classes, forward: logits = W·uᵀ, scaled row by row with s/‖W_j‖, their maximum, and the
sum of exp(logit − maximum). Backward, with T the derivative by these logits: the gradients
Tᵀ·W and T·u, and the part of the latter that points along W_j taken out, as only W_j's direction
counts. Neither a normalized copy of W, nor a one-hot matrix, nor a second matrix of logits exists.
`store` keeps the logits for the way back, `recompute` forms them anew.

Chunks lie as (classes, batch), so that they are contiguous and their factors are one per row.
"""

from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.nn import functional as F

from arcset.centers.query import Query
from arcset.centers.sampling import Drawn
from arcset.centers.storage import Centers
from arcset.centers.walk import ABSENT, Walk
from arcset.numerics import unit_rows, widen

__all__ = ["fused_losses"]


# As torch.compiler.disable, but torch's compiler, which takes as long to import as all of torch,
# is imported at the first call and not with this module: as torch does it for its own optimizers.
@_disable_dynamo
def fused_losses(
    centers: Centers, query: Query, *, store: bool, drawn: Drawn | None = None
) -> Tensor:
    """−log softmax at the margined target, (B,); equal to `plain_losses` within rounding."""
    labels = query.labels
    dtype = torch.promote_types(query.unit.dtype, widen(centers.weight[:0]).dtype)
    unit = query.unit.to(dtype)  # (B, D)
    first = None
    if centers.subcenters > 1 or query.margin.alters_negatives:  # others learn it on the way
        first, chosen, here = _target_cosines(centers, unit.detach(), labels)  # (B,), (m,), (B,)
        query.observe(first)
        if centers.subcenters > 1 and query.margin.training:
            centers.count(_places(centers, labels)[here], chosen)
    walk = Walk(centers, query, first, drawn)
    cosine, log_sum, peak, total = _Softmax.apply(  # type: ignore[no-untyped-call]
        unit, centers.weight, centers.bias, walk, store and torch.is_grad_enabled()
    )  # (B,) each
    if first is None:
        query.observe(cosine)
    target = query.scale * query.target(cosine)  # (B,)
    if centers.bias is not None:
        target = target + _target_biases(centers, centers.bias, labels)
    query.observe_softmax(cosine, torch.where(peak > ABSENT / 2, log_sum + peak, -torch.inf))
    losses = F.softplus(log_sum + (peak - target), threshold=_linear_from(dtype))
    if query.smoothing:
        spread = (target + total) / _count(centers, drawn)
        losses = losses + query.smoothing * (target - spread)
    return losses


def _linear_from(dtype: torch.dtype) -> float:
    """The x from which on softplus(x) = x in this dtype."""
    return 20.0 if dtype == torch.float32 else 40.0


@torch.no_grad()
def _target_cosines(
    centers: Centers, unit: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Cosine with the target's nearest center (B,); of the targets in this process, which of its
    centers that is (m,), and which samples these are (B,)."""
    count, places = centers.subcenters, _places(centers, labels)
    here = places >= 0
    rows = (places[here, None] * count + torch.arange(count, device=labels.device)).flatten()
    own = unit_rows(widen(centers.weight.detach()[rows]).to(unit.dtype))[0]  # (m·K, D)
    cosines = torch.linalg.vecdot(own.unflatten(0, (-1, count)), unit[here, None])  # (m, K)
    best, chosen = cosines.max(dim=1)
    cosine = unit.new_zeros(len(unit))
    cosine[here] = best
    return cosine if centers.shard is None else centers.shard.sum(cosine), chosen, here


def _places(centers: Centers, labels: Tensor) -> Tensor:
    """Where the labels (B,) stand among the classes of this process; −1 for none."""
    return labels if centers.shard is None else centers.shard.places(labels)


def _target_biases(centers: Centers, bias: Tensor, labels: Tensor) -> Tensor:
    """b_y, (B,)."""
    if centers.shard is None:
        return widen(bias)[labels]
    places = centers.shard.places(labels)
    own = torch.where(places >= 0, widen(bias)[places.clamp(min=0)], 0.0)
    return centers.shard.sum(own)


def _count(centers: Centers, drawn: Drawn | None) -> float:
    """How many classes take part, or are stood for, in all processes together."""
    if drawn is None:
        return centers.classes if centers.shard is None else centers.shard.classes
    own = len(drawn) if drawn.weights is None else float(drawn.weights.sum())
    if centers.shard is None:
        return own
    exact = torch.tensor(own, dtype=torch.float64, device=drawn.classes.device)
    return float(centers.shard.sum(exact))


def _asked_for(leaf: Tensor) -> bool:
    """Whether this backward pass wants a gradient of `leaf`: not so in autograd.grad(loss, x)."""
    try:
        node = torch.autograd.graph.get_gradient_edge(leaf).node
        return bool(torch._C._will_engine_execute_node(node))
    except (AttributeError, RuntimeError):  # torch without this function: assume so
        return True


class _Softmax(torch.autograd.Function):
    """The walk over the classes as one differentiable step.

    In: u (B, D), W, b. Out, (B,) each: the target cosines; ln Σ_{j≠y} exp(z_j − peak); that peak, a
    constant; Σ_{j≠y} z_j where asked for.
    """

    @staticmethod
    def forward(
        ctx: Any,
        unit: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        walk: Walk,
        store: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        keep = store and any(ctx.needs_input_grad[:3])
        found = walk.forward(unit, weight, bias, store=keep)
        cosine, log_sum, peak, total, logits, inverse = found
        ctx.walk = walk
        ctx.save_for_backward(unit, weight, bias, logits, inverse, log_sum, peak)
        ctx.mark_non_differentiable(peak)
        return cosine, log_sum, peak, total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        unit, weight, bias, logits, inverse, log_sum, peak = ctx.saved_tensors
        by_cosine, by_log_sum, _, by_total = gradients  # (B,) each
        by_unit, by_weight, by_bias = ctx.needs_input_grad[:3]
        with torch.autocast(unit.device.type, enabled=False):  # backward() may be called inside one
            found = ctx.walk.backward(
                unit,
                weight,
                bias,
                logits,
                inverse,
                peak,
                target=by_cosine,
                share=by_log_sum * (-log_sum).exp(),  # derivative by log_sum / Σ exp(z − peak)
                even=by_total,
                wanted=(by_unit, by_weight and _asked_for(weight), by_bias),
            )
        return *found, None, None
