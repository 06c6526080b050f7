"""Over all classes, or those drawn, and back, chunk by chunk."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from arcset.centers.query import Query
from arcset.centers.sampling import Drawn
from arcset.centers.storage import Centers
from arcset.centers.update import pieces
from arcset.numerics import widen

__all__ = ["ABSENT", "Walk", "classes_per_chunk"]

ABSENT = -1e30  # a logit that counts for nothing, and stays finite when multiplied by 0
_CHUNK = {"cpu": 2**23, "other": 2**26}  # entries of rows and logits together: caches, launches


@dataclass(frozen=True)
class _Chunk:
    """Classes first … last − 1, and the samples whose target is among them."""

    first: int
    last: int
    samples: Tensor  # (m,) positions in the batch
    targets: Tensor  # (m,) where these samples' own logits lie in the chunk's (n, B), flat


class Walk:
    """One batch's way over the centers: forward once, then back as often as autograd asks."""

    def __init__(
        self,
        centers: Centers,
        query: Query,
        cosine: Tensor | None = None,
        drawn: Drawn | None = None,
    ) -> None:
        self._alters = query.margin.alters_negatives
        if self._alters:  # what it learns from later batches must not reach this one's way back
            query = replace(query, margin=copy.deepcopy(query.margin))
        self._centers, self._query, self._scale = centers, query, query.scale
        self._update = centers.update if centers.training else None
        if self._update is not None:
            self._update.check(centers.weight)
        self._per_class, self._drawn = centers.subcenters, drawn
        self._classes = centers.classes if drawn is None else len(drawn)
        self._shard = centers.shard
        if drawn is not None:
            places = drawn.labels
        else:
            places = query.labels if self._shard is None else self._shard.places(query.labels)
        self._chunks = list(_chunks(self._classes, centers, places))
        self._target = None  # (B,) margined target cosines, for margins that alter negatives
        if self._alters and cosine is not None:
            self._target = query.target(cosine).detach()
        self._shrunk: dict[int, Tensor] = {}  # chunk's first class → divisors of its rows (n·K, 1)
        self._weights = None  # (C,) how many classes each stands for
        if drawn is not None and drawn.weights is not None:
            dtype = torch.promote_types(query.unit.dtype, widen(centers.weight[:0]).dtype)
            self._weights = drawn.weights.to(dtype)

    # ---------------------------------------------------------------- there

    @torch.no_grad()
    def forward(
        self, unit: Tensor, weight: Tensor, bias: Tensor | None, *, store: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor]:
        """Target cosines; ln Σ exp(z − peak), peak and Σ z over the negatives, (B,) each; the
        logits if stored; 1/‖W_j‖ (C·K,)."""
        batch, rows = len(unit), self._classes * self._per_class
        inverse = unit.new_empty(rows)  # (C·K,)
        logits = self._buffer((rows, batch), unit) if store else None
        # Where no class takes part, as in a process that drew none, the sum is that of one absent.
        peaks = unit.new_full((max(1, len(self._chunks)), batch), ABSENT)
        sums = torch.ones_like(peaks)
        cosine, total = unit.new_zeros(batch), unit.new_zeros(batch)
        ready = self._find_floor(unit, weight, inverse, logits)
        spare = self._spare(unit)
        for place, chunk in enumerate(self._chunks):
            if ready and logits is not None:
                block = logits[self._rows(chunk)]
            else:
                block = self._product(chunk, unit, weight, inverse, logits)
            nearest = self._nearest(block)  # (n, B)
            own = nearest.view(-1)[chunk.targets]  # (m,)
            cosine[chunk.samples] = own
            scores = self._scores(chunk, nearest, bias)  # (n, B)
            _put(chunk, scores, ABSENT)
            torch.amax(scores, dim=0, out=peaks[place]).clamp_(min=ABSENT)  # biases may be −∞
            powers = spare[: len(scores)]
            torch.sub(scores, peaks[place], out=powers).exp_()
            self._summed(chunk, powers, out=sums[place])
            if self._query.smoothing:
                _put(chunk, scores, 0.0)
                total += self._summed(chunk, scores)
            if scores is block:
                _put(chunk, scores, own)
        peak = peaks.amax(dim=0)  # (B,)
        log_sum = (sums * (peaks - peak).exp()).sum(dim=0).log()
        cosine.div_(self._scale)
        if self._shard is not None:
            cosine, log_sum, peak, total = self._shard.join(cosine, log_sum, peak, total)
        return cosine, log_sum, peak, total, logits, inverse

    def _product(
        self, chunk: _Chunk, unit: Tensor, weight: Tensor, inverse: Tensor, logits: Tensor | None
    ) -> Tensor:
        """s·cos θ of a chunk, (n·K, B), in its place among `logits` if these are kept.

        Its rows' 1/‖W_j‖ go into `inverse`. They are found after the product, which reads the rows
        from far away at no loss of time, and leaves them near for the sum of squares.
        """
        where = self._rows(chunk)
        rows = self._load(chunk, weight, unit)
        block = unit.new_empty(len(rows), len(unit)) if logits is None else logits[where]
        torch.mm(rows, unit.T, out=block)
        if self._measure(chunk, rows, inverse[where]):
            torch.mm(self._load(chunk, weight, unit), unit.T, out=block)
        return block.mul_((self._scale * inverse[where])[:, None])

    def _measure(self, chunk: _Chunk, rows: Tensor, inverse: Tensor) -> bool:
        """Fill `inverse` with 1/‖row‖; whether the rows must be loaded anew, made smaller.

        That is so where squares cannot be held: each row is then divided by its largest entry. A
        zero row has no direction: it counts as one of length 1 with cosine 0 to everything, and so
        does one too short to bear a gradient, as in `arcset.numerics.unit_rows`.
        """
        torch.linalg.vector_norm(rows, dim=1, out=inverse)  # (n·K,)
        limits = torch.finfo(rows.dtype)
        shortest, longest = inverse.aminmax()
        if shortest > limits.tiny**0.5 * 1e4 and longest < limits.max**0.5 * 1e-4:
            inverse.reciprocal_()
            return False
        if chunk.first not in self._shrunk:
            peak = rows.abs().amax(dim=1, keepdim=True)  # (n·K, 1)
            peak = torch.where(peak > limits.tiny * 1e8, peak, 1.0)
            self._shrunk[chunk.first] = peak
            torch.linalg.vector_norm(rows / peak, dim=1, out=inverse)
        # Divided by its largest entry, a row is at least 1 long, unless it was too short for that.
        inverse.copy_(torch.where(inverse >= 0.5, inverse, 1.0).reciprocal_())
        return True

    def _load(self, chunk: _Chunk, weight: Tensor, like: Tensor) -> Tensor:
        """The chunk's rows of W, (n·K, D): themselves, or widened, or made smaller."""
        rows = widen(weight[self._where(chunk)]).to(like.dtype)
        divisor = self._shrunk.get(chunk.first)
        return rows if divisor is None else rows / divisor

    def _summed(self, chunk: _Chunk, values: Tensor, out: Tensor | None = None) -> Tensor:
        """The sum (B,) of values (n, B) over classes, as often as each of them counts."""
        if self._weights is None:
            return torch.sum(values, dim=0, out=out)
        return torch.mv(values.T, self._weights[chunk.first : chunk.last], out=out)

    def _nearest(self, block: Tensor) -> Tensor:
        """s·cos θ of each class's nearest center (n, B); `block` itself where it has only one."""
        if self._per_class == 1:
            return block
        return block.view(-1, self._per_class, block.shape[1]).amax(dim=1)

    def _scores(self, chunk: _Chunk, nearest: Tensor, bias: Tensor | None) -> Tensor:
        """The logits of classes (n, B); `nearest` itself where nothing is to be changed."""
        scores = nearest
        if self._alters and self._target is not None:
            cosines = (scores / self._scale).T  # (B, n)
            change = self._query.negatives(cosines, self._target) - cosines  # most are 0
            scores = torch.add(scores, change.T, alpha=self._scale)
        if bias is not None:
            scores = scores + widen(bias[self._places(chunk)])[:, None]
        return scores

    def _find_floor(
        self, unit: Tensor, weight: Tensor, inverse: Tensor, logits: Tensor | None
    ) -> bool:
        """A first walk for margins that ask for the k-th nearest wrong class; whether it was."""
        wrong = self._classes - 1 if self._shard is None else self._shard.classes - 1
        count = min(self._query.margin.nearest, wrong)
        if not self._alters or count < 1:
            return False
        best = unit.new_full((count, len(unit)), ABSENT)
        for chunk in self._chunks:
            block = self._product(chunk, unit, weight, inverse, logits)
            scores = self._nearest(block).clone()  # (n, B)
            _put(chunk, scores, ABSENT)
            best = torch.cat([best, scores]).topk(count, dim=0).values
        if self._shard is not None:
            best = self._shard.best(best)
        self._query = self._query.with_floor((best[-1] / self._scale)[:, None])
        return True

    # ---------------------------------------------------------------- and back

    @torch.no_grad()
    def backward(
        self,
        unit: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        logits: Tensor | None,
        inverse: Tensor,
        peak: Tensor,
        *,
        target: Tensor,
        share: Tensor,
        even: Tensor,
        wanted: Sequence[bool],
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Gradients of u, W and b, from the derivatives (B,) by the target's cosine (`target`),
        by each negative's exp(z − peak) (`share`) and by each negative's z (`even`)."""
        update = self._update if wanted[1] else None
        step = update.begin(self, target, share) if update is not None else None
        by_unit = torch.zeros_like(unit) if wanted[0] else None
        by_weight = None
        if wanted[1] and update is None:
            by_weight = self._buffer(tuple(weight.shape), weight)
            if self._drawn is not None:
                by_weight.zero_()
        by_bias = torch.zeros_like(bias) if bias is not None and wanted[2] else None
        spare, other = self._spare(unit, 2).chunk(2)
        raised = peak - share.abs().log()  # exp(z − raised) = |share|·exp(z − peak)
        sign = share.sign() if bool((share < 0).any()) else None  # of a loss to be raised
        for chunk in self._chunks:
            where = self._rows(chunk)
            rows = self._load(chunk, weight, unit)  # (n·K, D)
            factor = self._scale * inverse[where]  # (n·K,)
            if logits is None:
                block = torch.mm(rows, unit.T).mul_(factor[:, None])
            else:
                block = logits[where]
            slope = self._slopes(chunk, block, bias, raised, sign, even, spare)  # (n, B)
            weights = self._row_weights(chunk)  # of (n·K,) rows; 1 for samples' own classes
            if by_bias is not None:
                sums = slope.sum(dim=1)
                if weights is not None:
                    sums *= weights[:: self._per_class]  # one for each class
                by_bias[self._places(chunk)] = sums.to(by_bias.dtype)
            slope = self._by_center(chunk, block, slope, target / self._scale)  # (n·K, B)

            # z = s·W·u/‖W‖, so its slope along W itself is nil: take that part out.
            product = torch.mul(block, slope, out=other[: len(block)])
            radial = product.sum(dim=1).mul_(inverse[where].square())
            if weights is not None:
                radial *= weights
                factor *= weights
            slope.mul_(factor[:, None])
            if by_unit is not None:
                by_unit.addmm_(slope.T, rows)
            if chunk.first in self._shrunk:
                slope /= self._shrunk[chunk.first]
                radial /= self._shrunk[chunk.first][:, 0]
            place = self._where(chunk)
            if by_weight is not None and by_weight.dtype == rows.dtype and isinstance(place, slice):
                _fill(by_weight[place], slope, unit, rows, radial.neg_()[:, None])
            elif by_weight is not None:
                exact = torch.mm(slope, unit).addcmul_(rows, radial[:, None], value=-1)
                limit = torch.finfo(weight.dtype).max
                by_weight[place] = exact.clamp_(-limit, limit).to(weight.dtype)
            elif step is not None and chunk.first in self._shrunk:  # `rows` are not those of W
                exact = torch.mm(slope, unit).addcmul_(rows, radial[:, None], value=-1)
                same = torch.eye(exact.shape[1], dtype=exact.dtype, device=exact.device)
                step.apply(place, exact, same, torch.zeros_like(radial), weights)
            elif step is not None:
                step.apply(place, slope, unit, radial, weights)
        return by_unit, by_weight, by_bias

    def _slopes(
        self,
        chunk: _Chunk,
        block: Tensor,
        bias: Tensor | None,
        raised: Tensor,
        sign: Tensor | None,
        even: Tensor,
        spare: Tensor,
    ) -> Tensor:
        """Derivative by the logits of the chunk's classes (n, B); 0 at targets."""
        scores = self._scores(chunk, self._nearest(block), bias)
        slope = spare[: len(scores)]
        torch.sub(scores, raised, out=slope).exp_()
        if sign is not None:
            slope *= sign
        if self._query.smoothing:
            slope += even
        _put(chunk, slope, 0.0)
        return slope

    def _by_center(self, chunk: _Chunk, block: Tensor, slope: Tensor, target: Tensor) -> Tensor:
        """From the derivative by classes' logits (n, B) to that by centers' (n·K, B)."""
        nearest = None
        if self._per_class > 1:
            nearest, chosen = block.view(-1, self._per_class, block.shape[1]).max(dim=1)
        if self._alters and not self._query.straight_through:
            with torch.enable_grad():
                cosines = ((block if nearest is None else nearest) / self._scale).T.detach()
                assert self._target is not None
                altered = self._query.negatives(cosines.requires_grad_(), self._target)
                slope = torch.autograd.grad(altered, cosines, slope.T)[0].T.contiguous()
        _put(chunk, slope, target[chunk.samples])
        if nearest is None:
            return slope
        spread = slope.new_zeros(len(slope), self._per_class, slope.shape[1])
        return spread.scatter_(1, chosen[:, None], slope[:, None]).flatten(0, 1)

    def _row_weights(self, chunk: _Chunk) -> Tensor | None:
        """How many classes each row of a chunk stands for, (n·K,); None where all count once."""
        if self._weights is None:
            return None
        return self._weights[chunk.first : chunk.last].repeat_interleave(self._per_class)

    # ---------------------------------------------------------------- small things

    def _rows(self, chunk: _Chunk) -> slice:
        """The chunk's centers among those that take part."""
        return slice(chunk.first * self._per_class, chunk.last * self._per_class)

    def _where(self, chunk: _Chunk) -> slice | Tensor:
        """The chunk's centers among all rows of W."""
        if self._drawn is None:
            return self._rows(chunk)
        return self._drawn.rows(chunk.first, chunk.last, self._per_class)

    def _places(self, chunk: _Chunk) -> slice | Tensor:
        """The chunk's classes among all."""
        if self._drawn is None:
            return slice(chunk.first, chunk.last)
        return self._drawn.classes[chunk.first : chunk.last]

    def _buffer(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return self._centers.memory.empty(shape, like.dtype, like.device)

    def _spare(self, unit: Tensor, count: int = 1) -> Tensor:
        """Room for `count` blocks of the first chunk's classes, which is the largest."""
        classes = self._chunks[0].last if self._chunks else 0
        return self._buffer((count * classes * self._per_class, len(unit)), unit)


def _put(chunk: _Chunk, scores: Tensor, values: Tensor | float) -> None:
    """Write into the places (n, B) where samples meet their own classes."""
    if isinstance(values, Tensor):
        scores.view(-1).index_copy_(0, chunk.targets, values)
    else:
        scores.view(-1).index_fill_(0, chunk.targets, values)


def _fill(out: Tensor, slope: Tensor, unit: Tensor, rows: Tensor, along: Tensor) -> None:
    """out = slope·unit + along·rows, by pieces that are still in the cache for the second part."""
    for part, _ in pieces(slice(0, len(out)), out.device):
        torch.mm(slope[part], unit, out=out[part])
        out[part].addcmul_(rows[part], along[part])


def _chunks(classes: int, centers: Centers, labels: Tensor) -> Iterator[_Chunk]:
    """Slices of about equal size, the first the largest.

    labels (B,) are below `classes`; those of samples whose class is not here are negative.
    """
    size = _chunk_size(classes, centers, len(labels), labels.device)
    ordered, samples = labels.sort()
    starts = torch.arange(0, classes, size, device=labels.device)
    borders = [*torch.searchsorted(ordered, starts).tolist(), len(labels)]
    for first, low, high in zip(starts.tolist(), borders, borders[1:], strict=False):
        last = min(first + size, classes)
        own = samples[low:high]
        yield _Chunk(first, last, own, (ordered[low:high] - first) * len(labels) + own)


def _chunk_size(classes: int, centers: Centers, batch: int, device: torch.device) -> int:
    """Classes per chunk."""
    return classes_per_chunk(classes, centers.dim, centers.subcenters, batch, device.type)


def classes_per_chunk(classes: int, dim: int, subcenters: int, batch: int, device: str) -> int:
    """How many of the classes are taken at a time, on a device of this type."""
    budget = _CHUNK.get(device, _CHUNK["other"])
    count = max(1, -(-classes * (dim + batch) * subcenters // budget))
    return max(1, -(-classes // count))
