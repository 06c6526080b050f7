"""The softmax over class centers by chunks of classes: the same numbers, less time and memory.

A batch has B embeddings, used as unit rows u (B, D). There are C classes with K centers each, the
rows of W (C·K, D); C counts the classes that take part in this process, which may be fewer than
there are. The logit of class j is z_j = s·cos θ with the nearest of its centers (+ b_j). That of a
sample's own class, the target y, has a margin; the other classes are its negatives. With the sum
over the negatives set apart, the loss of a sample needs only two numbers that depend on W, the
target's cosine and that sum (held as a logarithm beside a peak, a constant, so that nothing
overflows):

    −log softmax_y(z) = softplus(ln Σ_{j≠y} exp z_j − z_y)

So one pass over W finds these two numbers for every sample. The margin then acts on B target
cosines, and the softplus on B pairs, in ordinary torch operations (`fused_losses`). For autograd
the pass is one function (`_Softmax`): what autograd says about the two numbers is all that the
pass back over W needs to know. Both passes are methods of `ChunkedSoftmax`.

**Forward.** Per chunk of n classes, with blocks as (classes, batch), so that they are contiguous
and have one factor per row:

    block   = s/‖W_j‖ · (W_j · uᵀ)             (n·K, B)   s·cos θ with every center
    nearest = the largest of a class's K        (n, B)
    z       = nearest (+ b_j)                   (n, B)     negatives changed if the margin does that
    peak    = max_{j≠y} z_j                     (B,)
    sum     = Σ_{j≠y} exp(z_j − peak)           (B,)

The sums of the chunks are brought to the highest peak and added up. What is kept for the way back:
1/‖W_j‖ (C·K,), peak and ln sum (B,), and, where the mode is `store`, the blocks (C·K, B). With
`recompute` the way back forms them anew.

**Backward.** Autograd gives the derivatives of the loss by the target's cosine, g_y (B,), and by
ln sum, g (B,). Per chunk, again:

    slope_j  = g/sum · exp(z_j − peak)                          (n, B)      by the logits of classes
    slope    = that at the nearest of a class's K centers,
               g_y/s at the target's, 0 elsewhere               (n·K, B)    by the entries of block
    radial_j = Σ_b block_jb · slope_jb / ‖W_j‖²                 (n·K,)
    ∂u      += (s/‖W_j‖ · slope)ᵀ · W                           (B, D)
    ∂W_j     = s/‖W_j‖ · slope · u − radial_j · W_j             (n·K, D)

The last term takes out what points along W_j, as only its direction counts. ∂W goes into the
gradient of W, or, with a fused update, at once into the optimizer's state and W itself while the
rows are in the cache (`arcset.centers.update`); it then never exists as a whole. Nor does a
normalized copy of W, a one-hot matrix, or a second matrix of logits.

**Variants**, which change little of this:

- Label smoothing also needs Σ_{j≠y} z_j; its derivative is the same for all negatives of a sample.
- Some of the classes (`arcset.centers.sampled`): only their rows are loaded, and a class that
  stands for several counts that many times in the sum and in its gradient. The targets of the batch
  always take part, and stand for themselves alone.
- Centers divided among processes (`arcset.centers.sharded`): each passes over its own classes; the
  targets of others are absent there, and `Shard.join_softmax` adds up what all have found. ∂u then
  holds the part of this process's classes; the parts are added where u was gathered.
- Margins that change negatives compare them with the margined target, whose cosine must be known
  before the pass that finds it: an early look at B rows (`_target_cosines`). With
  `straight_through` the way back takes their change for a constant. Margins that change the nearest
  k negatives also need the k-th highest wrong cosine, their *floor*: one more pass forward
  (`_find_floor`). For K > 1 the early look only counts which center each sample chose.
- Rows so long or short that their squares cannot be held are divided by their largest entry d when
  they are loaded. W = d·R, so the gradient by R is divided by d once more.

**What holds between the passes.** A `ChunkedSoftmax` serves one batch. Beside what autograd saves,
it keeps the divisors d, the margined target, the floor, and a copy of a margin that learns, all as
the pass forward found them. A fused update changes W on the way back; torch, which has saved W,
then refuses a second way back of the same pass. Large buffers come from `Centers.memory`, which
hands out a block again only once no tensor uses it.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.nn import functional as F

from arcset.centers.plain import MarginBatch
from arcset.centers.sampled import SampledClasses
from arcset.centers.storage import Centers, class_rows
from arcset.centers.update import CenterUpdate, pieces
from arcset.devices import free_memory
from arcset.numerics import common_dtype, unit_rows, widen

_ABSENT = -1e30  # a logit that counts for nothing: exp gives 0, and differences stay finite


# As torch.compiler.disable, but torch's compiler, which takes as long to import as all of torch,
# is imported at the first call and not with this module: as torch does it for its own optimizers.
@_disable_dynamo
def fused_losses(
    centers: Centers, batch: MarginBatch, *, store: bool, sampled: SampledClasses | None = None
) -> Tensor:
    """−log softmax at the margined target, (B,); equal to `plain_losses` within rounding."""
    labels = batch.labels
    dtype = common_dtype(batch.unit, centers.weight)
    unit = batch.unit.to(dtype)  # (B, D)
    early = None  # the target cosines, where they must be known before the pass that finds them
    if centers.subcenters > 1 or batch.margin.alters_negatives:
        early, chosen, here = _target_cosines(centers, unit.detach(), labels)  # (B,), (m,), (B,)
        batch.observe(early)  # margins with statistics learn from a batch before they judge it
        if centers.subcenters > 1 and batch.margin.training:
            centers.count_usage(centers.shard.local_labels(labels)[here], chosen)
    softmax = ChunkedSoftmax(centers, batch, early, sampled)
    cosine, log_sum, peak, logit_sum = _Softmax.apply(  # type: ignore[no-untyped-call]
        unit, centers.weight, centers.bias, softmax, store and torch.is_grad_enabled()
    )  # (B,) each
    if early is None:
        batch.observe(cosine)
    target = batch.scale * batch.target(cosine)  # (B,)
    if centers.bias is not None:
        target = target + _target_biases(centers, centers.bias, labels)
    has_negatives = peak > _ABSENT / 2
    batch.observe_softmax(cosine, torch.where(has_negatives, log_sum + peak, -torch.inf))
    losses = F.softplus(log_sum + (peak - target), threshold=_linear_from(dtype))
    if batch.smoothing:  # (1 − ε)(−log p_y) + ε · mean of all −log p_j, in terms of the logits
        mean = (target + logit_sum) / _class_count(centers, sampled)
        losses = losses + batch.smoothing * (target - mean)
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
    count, local = centers.subcenters, centers.shard.local_labels(labels)
    here = local >= 0
    rows = centers.weight.detach()[class_rows(local[here], count)]
    own = unit_rows(widen(rows).to(unit.dtype))[0]  # (m·K, D)
    cosines = torch.linalg.vecdot(own.unflatten(0, (-1, count)), unit[here, None])  # (m, K)
    best, chosen = cosines.max(dim=1)
    cosine = unit.new_zeros(len(unit))
    cosine[here] = best
    return centers.shard.sum(cosine), chosen, here


def _target_biases(centers: Centers, bias: Tensor, labels: Tensor) -> Tensor:
    """b_y, (B,)."""
    local = centers.shard.local_labels(labels)
    own = torch.where(local >= 0, widen(bias)[local.clamp(min=0)], 0.0)
    return centers.shard.sum(own)


def _class_count(centers: Centers, sampled: SampledClasses | None) -> float:
    """How many classes take part, or are stood for, in all processes together."""
    if sampled is None:
        return centers.shard.classes
    own = len(sampled) if sampled.weights is None else float(sampled.weights.sum())
    exact = torch.tensor(own, dtype=torch.float64, device=sampled.classes.device)
    return float(centers.shard.sum(exact))


class _Softmax(torch.autograd.Function):
    """Both passes over the classes as one differentiable step.

    In: u (B, D), W, b. Out, (B,) each: the target cosines; ln Σ_{j≠y} exp(z_j − peak); that peak, a
    constant; Σ_{j≠y} z_j where asked for.
    """

    @staticmethod
    def forward(
        ctx: Any,
        unit: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        softmax: "ChunkedSoftmax",
        store: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        store = store and any(ctx.needs_input_grad[:3])  # grad mode is always off in here
        out = softmax.forward(unit, weight, bias, store=store)
        ctx.softmax = softmax
        ctx.save_for_backward(
            unit, weight, bias, out.blocks, out.inverse_lengths, out.log_sum, out.peak
        )
        ctx.mark_non_differentiable(out.peak)
        return out.cosine, out.log_sum, out.peak, out.logit_sum

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *derivatives: Tensor) -> tuple[Tensor | None, ...]:
        unit, weight, bias, blocks, inverse_lengths, log_sum, peak = ctx.saved_tensors
        by_cosine, by_log_sum, _, by_logit_sum = derivatives  # (B,) each
        wants_unit, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        with torch.autocast(unit.device.type, enabled=False):  # it may be on around backward()
            gradients = ctx.softmax.backward(
                unit,
                weight,
                bias,
                blocks,
                inverse_lengths,
                peak,
                by_cosine=by_cosine,
                by_power=by_log_sum
                * (-log_sum).exp(),  # by each exp(z − peak): that of ln Σ is 1/Σ
                by_logit=by_logit_sum,
                wanted=(wants_unit, wants_weight and _is_wanted(weight), wants_bias),
            )
        return *gradients, None, None


def _is_wanted(leaf: Tensor) -> bool:
    """Whether this backward pass wants a gradient of `leaf`; autograd.grad(loss, unit) does not.

    Asked of W, because a fused update must not happen on the side.
    """
    try:
        node = torch.autograd.graph.get_gradient_edge(leaf).node
        return bool(torch._C._will_engine_execute_node(node))
    except (AttributeError, RuntimeError):  # torch without it, or a leaf that is asked for itself
        return True


@dataclass(frozen=True)
class _Chunk:
    """Classes first … last − 1 of those that take part, and the samples whose target is there."""

    first: int
    last: int
    samples: Tensor  # (m,) positions in the batch
    targets: Tensor  # (m,) where these samples' own logits lie in the chunk's (n, B), flat

    def set_targets(self, scores: Tensor, values: Tensor | float) -> None:
        """Write into scores (n, B) where samples meet their own classes."""
        if isinstance(values, Tensor):
            scores.view(-1).index_copy_(0, self.targets, values)
        else:
            scores.view(-1).index_fill_(0, self.targets, values)


class _Pass(NamedTuple):
    """What the pass forward has found."""

    cosine: Tensor  # (B,) of the targets
    log_sum: Tensor  # (B,) ln Σ exp(z − peak) over the negatives
    peak: Tensor  # (B,)
    logit_sum: Tensor  # (B,) Σ z over the negatives, for label smoothing
    blocks: Tensor | None  # (C·K, B) s·cos θ with every center, if stored
    inverse_lengths: Tensor  # (C·K,) 1/‖W_j‖; of rows that are divided by d, d/‖W_j‖


class ChunkedSoftmax:
    """One batch's passes over the centers: forward once, then back as often as autograd asks.

    A chunk's rows go by two kinds of numbers: `_block_rows` among the centers that take part, as
    they stand in `blocks` and `inverse_lengths`, and `_weight_rows` among all rows of W.
    """

    def __init__(
        self,
        centers: Centers,
        batch: MarginBatch,
        early: Tensor | None = None,
        sampled: SampledClasses | None = None,
    ) -> None:
        self._alters = batch.margin.alters_negatives
        if self._alters:  # what it learns from later batches must not reach this one's way back
            batch = replace(batch, margin=copy.deepcopy(batch.margin))
        self._centers, self._batch, self._scale = centers, batch, batch.scale
        self._update = centers.update if centers.training else None
        if self._update is not None:
            self._update.check(centers.weight)
        self._per_class, self._sampled = centers.subcenters, sampled
        self._classes = centers.classes if sampled is None else len(sampled)
        self._shard = centers.shard
        labels = centers.shard.local_labels(batch.labels) if sampled is None else sampled.labels
        self._chunks = list(_chunks(self._classes, centers, labels))
        self._target = None  # (B,) margined target cosines, for margins that alter negatives
        if self._alters and early is not None:
            self._target = batch.target(early).detach()
        self._divisors: dict[int, Tensor] = {}  # chunk's first class → d of its rows, (n·K, 1)
        self._weights = None  # (C,) how many classes each stands for
        if sampled is not None and sampled.weights is not None:
            self._weights = sampled.weights.to(common_dtype(batch.unit, centers.weight))

    # ---------------------------------------------------------------- forward

    @torch.no_grad()
    def forward(self, unit: Tensor, weight: Tensor, bias: Tensor | None, *, store: bool) -> _Pass:
        """From u (B, D), W and b, over all chunks."""
        count, rows = len(unit), self._classes * self._per_class
        inverse_lengths = unit.new_empty(rows)  # (C·K,)
        blocks = self._buffer((rows, count), unit) if store else None
        # A process that drew no class counts one that is absent, so that there is a sum.
        peaks = unit.new_full((max(1, len(self._chunks)), count), _ABSENT)
        sums = torch.ones_like(peaks)
        cosine, logit_sum = unit.new_zeros(count), unit.new_zeros(count)
        multiplied = self._find_floor(unit, weight, inverse_lengths, blocks)
        scratch = self._scratch(unit)
        for number, chunk in enumerate(self._chunks):
            if multiplied and blocks is not None:
                block = blocks[self._block_rows(chunk)]
            else:
                block = self._multiply(chunk, unit, weight, inverse_lengths, blocks)
            nearest = self._nearest(block)  # (n, B)
            own = nearest.view(-1)[chunk.targets]  # (m,) s·cos θ of the targets here
            cosine[chunk.samples] = own
            scores = self._scores(chunk, nearest, bias)  # (n, B)
            chunk.set_targets(scores, _ABSENT)
            torch.amax(scores, dim=0, out=peaks[number]).clamp_(min=_ABSENT)  # biases may be −∞
            powers = scratch[: len(scores)]
            torch.sub(scores, peaks[number], out=powers).exp_()
            self._sum_classes(chunk, powers, out=sums[number])
            if self._batch.smoothing:
                chunk.set_targets(scores, 0.0)
                logit_sum += self._sum_classes(chunk, scores)
            if scores is block:  # which the way back may read
                chunk.set_targets(scores, own)
        peak = peaks.amax(dim=0)  # (B,)
        log_sum = (sums * (peaks - peak).exp()).sum(dim=0).log()
        cosine.div_(self._scale)
        joined = self._shard.join_softmax(cosine, log_sum, peak, logit_sum)
        return _Pass(*joined, blocks, inverse_lengths)

    def _multiply(
        self,
        chunk: _Chunk,
        unit: Tensor,
        weight: Tensor,
        inverse_lengths: Tensor,
        blocks: Tensor | None,
    ) -> Tensor:
        """s·cos θ of a chunk, (n·K, B), where it belongs among `blocks` if these are kept.

        Its rows' 1/‖W_j‖ go into `inverse_lengths`. They are found after the product, which takes
        so long to compute that reading the rows costs nothing, and leaves them in the cache.
        """
        where = self._block_rows(chunk)
        rows = self._load_rows(chunk, weight, unit)
        block = unit.new_empty(len(rows), len(unit)) if blocks is None else blocks[where]
        torch.mm(rows, unit.T, out=block)
        if self._invert_lengths(chunk, rows, inverse_lengths[where]):
            torch.mm(self._load_rows(chunk, weight, unit), unit.T, out=block)
        return block.mul_((self._scale * inverse_lengths[where])[:, None])

    def _invert_lengths(self, chunk: _Chunk, rows: Tensor, out: Tensor) -> bool:
        """Fill `out` with 1/‖row‖; whether the rows must be loaded anew, made smaller.

        That is so where squares cannot be held: each row is then divided by its largest entry. A
        zero row has no direction: it counts as one of length 1 with cosine 0 to everything, and so
        does one too short to bear a gradient, as in `arcset.numerics.unit_rows`.
        """
        torch.linalg.vector_norm(rows, dim=1, out=out)  # (n·K,)
        limits = torch.finfo(rows.dtype)
        shortest, longest = out.aminmax()
        # With room for sums of up to 10⁸ squares, and for squares that lose no digits.
        if shortest > limits.tiny**0.5 * 1e4 and longest < limits.max**0.5 * 1e-4:
            out.reciprocal_()
            return False
        if chunk.first not in self._divisors:
            largest = rows.abs().amax(dim=1, keepdim=True)  # (n·K, 1)
            largest = torch.where(largest > limits.tiny * 1e8, largest, 1.0)
            self._divisors[chunk.first] = largest
            torch.linalg.vector_norm(rows / largest, dim=1, out=out)
        # Divided by its largest entry, a row is at least 1 long, unless it was too short for that.
        out.copy_(torch.where(out >= 0.5, out, 1.0).reciprocal_())
        return True

    def _nearest(self, block: Tensor) -> Tensor:
        """s·cos θ of each class's nearest center (n, B); `block` itself where it has only one."""
        if self._per_class == 1:
            return block
        return block.view(-1, self._per_class, block.shape[1]).amax(dim=1)

    def _scores(self, chunk: _Chunk, nearest: Tensor, bias: Tensor | None) -> Tensor:
        """The logits z of classes (n, B); `nearest` itself where nothing is to be changed."""
        scores = nearest
        if self._alters and self._target is not None:
            cosines = (scores / self._scale).T  # (B, n)
            change = self._batch.negatives(cosines, self._target) - cosines  # exactly 0 for most
            scores = torch.add(scores, change.T, alpha=self._scale)
        if bias is not None:
            scores = scores + widen(bias[self._class_numbers(chunk)])[:, None]
        return scores

    def _sum_classes(self, chunk: _Chunk, values: Tensor, out: Tensor | None = None) -> Tensor:
        """The sum (B,) of values (n, B) over classes, as often as each of them counts."""
        if self._weights is None:
            return torch.sum(values, dim=0, out=out)
        return torch.mv(values.T, self._weights[chunk.first : chunk.last], out=out)

    def _find_floor(
        self, unit: Tensor, weight: Tensor, inverse_lengths: Tensor, blocks: Tensor | None
    ) -> bool:
        """The pass before, for margins that ask for the k-th nearest wrong class: tells `_batch`
        its cosine. Whether it was taken, so that `inverse_lengths` and any `blocks` are filled.
        """
        # The same in all processes, which put their highest together.
        classes = self._shard.classes if self._shard.shared else self._classes
        count = min(self._batch.margin.nearest, classes - 1)
        if not self._alters or count < 1:
            return False
        best = unit.new_full((count, len(unit)), _ABSENT)
        for chunk in self._chunks:
            block = self._multiply(chunk, unit, weight, inverse_lengths, blocks)
            scores = self._nearest(block).clone()  # (n, B)
            chunk.set_targets(scores, _ABSENT)
            best = torch.cat([best, scores]).topk(count, dim=0).values
        best = self._shard.top_scores(best)
        self._batch = self._batch.with_floor((best[-1] / self._scale)[:, None])
        return True

    # ---------------------------------------------------------------- backward

    @torch.no_grad()
    def backward(
        self,
        unit: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        blocks: Tensor | None,
        inverse_lengths: Tensor,
        peak: Tensor,
        *,
        by_cosine: Tensor,
        by_power: Tensor,
        by_logit: Tensor,
        wanted: Sequence[bool],
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Gradients of u, W and b, from the derivatives (B,) by the target's cosine, by each
        negative's exp(z − peak), which is its power, and, for smoothing, by each negative's z."""
        update = self._update if wanted[1] else None
        step = update.begin(by_cosine, by_power) if update is not None else None
        for_unit = torch.zeros_like(unit) if wanted[0] else None
        for_weight = None
        if wanted[1] and update is None:
            for_weight = self._buffer(tuple(weight.shape), weight)
            if self._sampled is not None:
                for_weight.zero_()
        for_bias = torch.zeros_like(bias) if bias is not None and wanted[2] else None
        scratch, products = self._scratch(unit, 2).chunk(2)
        # exp(z − raised) = |by_power|·exp(z − peak), without a second pass over (n, B).
        raised = peak - by_power.abs().log()
        sign = by_power.sign() if bool((by_power < 0).any()) else None  # where a loss is maximized
        for chunk in self._chunks:
            where = self._block_rows(chunk)
            rows = self._load_rows(chunk, weight, unit)  # (n·K, D)
            factor = self._scale * inverse_lengths[where]  # (n·K,)
            if blocks is None:
                block = torch.mm(rows, unit.T).mul_(factor[:, None])
            else:
                block = blocks[where]
            slope = self._slope_by_class(chunk, block, bias, raised, sign, by_logit, scratch)
            weights = self._row_weights(chunk)  # of (n·K,) rows; 1 for samples' own classes
            if for_bias is not None:
                sums = slope.sum(dim=1)
                if weights is not None:
                    sums *= weights[:: self._per_class]  # one for each class
                for_bias[self._class_numbers(chunk)] = sums.to(for_bias.dtype)
            slope = self._slope_by_center(chunk, block, slope, by_cosine / self._scale)  # (n·K, B)

            # z = s·W·u/‖W‖, so its slope along W itself is nil: take that part out.
            product = torch.mul(block, slope, out=products[: len(block)])
            radial = product.sum(dim=1).mul_(inverse_lengths[where].square())
            if weights is not None:
                radial *= weights
                factor *= weights
            slope.mul_(factor[:, None])
            if for_unit is not None:
                for_unit.addmm_(slope.T, rows)
            if chunk.first in self._divisors:
                slope /= self._divisors[chunk.first]
                radial /= self._divisors[chunk.first][:, 0]
            if for_weight is not None:
                self._write_gradient(for_weight, chunk, slope, unit, rows, radial)
            elif step is not None:
                self._apply_update(step, chunk, slope, unit, rows, radial, weights)
        return for_unit, for_weight, for_bias

    def _slope_by_class(
        self,
        chunk: _Chunk,
        block: Tensor,
        bias: Tensor | None,
        raised: Tensor,
        sign: Tensor | None,
        by_logit: Tensor,
        scratch: Tensor,
    ) -> Tensor:
        """Derivative by the logits of the chunk's classes (n, B); 0 at targets."""
        scores = self._scores(chunk, self._nearest(block), bias)
        slope = scratch[: len(scores)]
        torch.sub(scores, raised, out=slope).exp_()
        if sign is not None:
            slope *= sign
        if self._batch.smoothing:
            slope += by_logit
        chunk.set_targets(slope, 0.0)
        return slope

    def _slope_by_center(
        self, chunk: _Chunk, block: Tensor, slope: Tensor, at_target: Tensor
    ) -> Tensor:
        """From the derivative by classes' logits (n, B) to that by `block`'s entries (n·K, B)."""
        nearest = None
        if self._per_class > 1:
            nearest, chosen = block.view(-1, self._per_class, block.shape[1]).max(dim=1)
        if self._alters and not self._batch.straight_through:
            with torch.enable_grad():
                cosines = ((block if nearest is None else nearest) / self._scale).T.detach()
                assert self._target is not None
                altered = self._batch.negatives(cosines.requires_grad_(), self._target)
                slope = torch.autograd.grad(altered, cosines, slope.T)[0].T.contiguous()
        chunk.set_targets(slope, at_target[chunk.samples])  # which nothing has altered
        if nearest is None:
            return slope
        spread = slope.new_zeros(len(slope), self._per_class, slope.shape[1])
        return spread.scatter_(1, chosen[:, None], slope[:, None]).flatten(0, 1)

    def _row_weights(self, chunk: _Chunk) -> Tensor | None:
        """How many classes each row of a chunk stands for, (n·K,); None where all count once."""
        if self._weights is None:
            return None
        return self._weights[chunk.first : chunk.last].repeat_interleave(self._per_class)

    def _write_gradient(
        self, out: Tensor, chunk: _Chunk, slope: Tensor, unit: Tensor, rows: Tensor, radial: Tensor
    ) -> None:
        """slope·u − radial·W of a chunk into `out`, the gradient of W."""
        where = self._weight_rows(chunk)
        if out.dtype != rows.dtype or not isinstance(where, slice):
            gradient = torch.mm(slope, unit).addcmul_(rows, radial[:, None], value=-1)
            limit = torch.finfo(out.dtype).max  # beyond it, 16 bits would make infinities
            out[where] = gradient.clamp_(-limit, limit).to(out.dtype)
            return
        out, along = out[where], radial.neg_()[:, None]
        for part, _ in pieces(slice(0, len(out)), out.device):  # in the cache for the second term
            torch.mm(slope[part], unit, out=out[part])
            out[part].addcmul_(rows[part], along[part])

    def _apply_update(
        self,
        step: CenterUpdate,
        chunk: _Chunk,
        slope: Tensor,
        unit: Tensor,
        rows: Tensor,
        radial: Tensor,
        weights: Tensor | None,
    ) -> None:
        """Update the chunk's rows of W by the gradient slope·u − radial·W."""
        if chunk.first in self._divisors:  # `rows` are not W's: hand over the gradient itself
            slope = torch.mm(slope, unit).addcmul_(rows, radial[:, None], value=-1)
            unit = torch.eye(slope.shape[1], dtype=slope.dtype, device=slope.device)  # slope·1
            radial = torch.zeros_like(radial)
        step.apply(self._weight_rows(chunk), slope, unit, radial, weights)

    # ---------------------------------------------------------------- both

    def _load_rows(self, chunk: _Chunk, weight: Tensor, like: Tensor) -> Tensor:
        """The chunk's rows of W, (n·K, D): themselves, or widened, or made smaller."""
        rows = widen(weight[self._weight_rows(chunk)]).to(like.dtype)
        divisor = self._divisors.get(chunk.first)
        return rows if divisor is None else rows / divisor

    def _block_rows(self, chunk: _Chunk) -> slice:
        return slice(chunk.first * self._per_class, chunk.last * self._per_class)

    def _weight_rows(self, chunk: _Chunk) -> slice | Tensor:
        if self._sampled is None:
            return self._block_rows(chunk)
        return self._sampled.rows(chunk.first, chunk.last, self._per_class)

    def _class_numbers(self, chunk: _Chunk) -> slice | Tensor:
        """The chunk's classes among all."""
        if self._sampled is None:
            return slice(chunk.first, chunk.last)
        return self._sampled.classes[chunk.first : chunk.last]

    def _buffer(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Room that is used again from step to step, once nothing holds on to it."""
        return self._centers.memory.empty(shape, like.dtype, like.device)

    def _scratch(self, unit: Tensor, count: int = 1) -> Tensor:
        """Room for `count` blocks of the first chunk's classes, which is the largest."""
        classes = self._chunks[0].last if self._chunks else 0
        return self._buffer((count * classes * self._per_class, len(unit)), unit)


# ---------------------------------------------------------------- how much at a time

MODES = ("auto", "plain", "store", "recompute")

# Entries of rows and logits together: few enough for a processor's caches, many enough that
# launching a GPU's kernels does not count.
_CHUNK = {"cpu": 2**23, "other": 2**26}
_FEW = 2**16  # logits; below, ordinary operations are as fast
_SMALL = 2**26  # bytes of logits that are always affordable


def choose_mode(
    mode: str,
    batch: int,
    rows: int,
    dtype: torch.dtype,
    device: torch.device,
    idle: int = 0,
    free: int | None = None,
) -> str:
    """`mode`, or for `auto` the one that suits `batch` × `rows` logits and the free memory.

    Plain where the logits are few; else store, as long as the logits fit into half of the memory
    that is free or `idle`, kept from the last step; else recompute, which is about a third slower
    and keeps none of them. `rows` are C·K; `idle` and `free` are bytes, and `free` says how much
    memory there is, instead of the device.

        >>> cpu = torch.device("cpu")
        >>> choose_mode("auto", 128, 10, torch.float32, cpu)
        'plain'
        >>> choose_mode("auto", 128, 10_000, torch.float32, cpu)
        'store'
        >>> choose_mode("auto", 512, 1_000_000_000, torch.float32, cpu)
        'recompute'
    """
    if mode != "auto":
        return mode
    logits = batch * rows
    if logits <= _FEW:
        return "plain"
    size = logits * dtype.itemsize
    if free is None and size > _SMALL:
        free = free_memory(device)
    fits = size <= _SMALL or size <= ((free or 0) + idle) // 2
    return "store" if fits else "recompute"


def _chunks(classes: int, centers: Centers, labels: Tensor) -> Iterator[_Chunk]:
    """Slices of equal size, but for the last, which may be smaller.

    labels (B,) are below `classes`; those of samples whose class is not here are negative.
    """
    batch, device = len(labels), labels.device
    size = classes_per_chunk(classes, centers.dim, centers.subcenters, batch, device.type)
    ordered, samples = labels.sort()
    starts = torch.arange(0, classes, size, device=device)
    borders = [*torch.searchsorted(ordered, starts).tolist(), batch]
    for first, low, high in zip(starts.tolist(), borders, borders[1:], strict=False):
        last = min(first + size, classes)
        own = samples[low:high]
        yield _Chunk(first, last, own, (ordered[low:high] - first) * batch + own)


def classes_per_chunk(classes: int, dim: int, subcenters: int, batch: int, device: str) -> int:
    """How many of the classes are taken at a time, on a device of this type."""
    budget = _CHUNK.get(device, _CHUNK["other"])
    count = max(1, -(-classes * (dim + batch) * subcenters // budget))
    return max(1, -(-classes // count))
