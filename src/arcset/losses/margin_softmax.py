"""Margin softmax: any margin on class centers."""

from typing import Any

import torch
from torch import Tensor

from arcset.centers import (
    MODES,
    Centers,
    CenterUpdate,
    MarginBatch,
    Shard,
    SharedShard,
    choose_mode,
    fused_losses,
    margined_logits,
    plain_logits,
    plain_losses,
    sample_classes,
)
from arcset.checks import check_bool, check_choice, check_count, check_number
from arcset.errors import InputError, OptionError
from arcset.losses.base import (
    Loss,
    check_batch,
    check_centers,
    check_embeddings,
    check_weights,
    place_rows,
    reduce_losses,
)
from arcset.margins import Margin
from arcset.margins.base import Law, format_options
from arcset.numerics import common_dtype, unit_rows, widen

GRADIENTS = ("exact", "straight_through")
STORAGES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class MarginSoftmax(Loss):
    """−log softmax of s·cos θ_j, with the target's cosine moved by a margin.

    This one class is normface, sphereface, cosface, arcface and every other margin.

    - `subcenters` K: each class has K centers and is as near as its nearest one.
    - `mode`: how the softmax is computed, `plain`, `store`, `recompute` or `auto`; the result is
      the same within rounding. See `arcset.centers.choose_mode`.
    - `sample`: the share of the classes that take part in a training step: those of the batch, and
      each other one with this probability, drawn anew every time (Partial FC). 1: all of them. With
      a fused update (`fuse_update`) only their rows, and the optimizer's state of these, are
      touched. In eval mode all classes take part.
    - `unbiased`: where classes are drawn, each that is there by chance counts 1/`sample` times in
      the softmax, so that its sum is on average the one over all classes. False: each counts once,
      as in the paper, which makes the loss lower and its demands weaker.
    - `storage`: `float32`, or `bfloat16`: centers of half the size. They want a fused update, which
      rounds at random, so that small steps are not lost.
    - `group`: processes that share the centers, each with its slice of the classes and its part of
      the batch: a process group of torch.distributed, or True for the default one. The loss is that
      of all parts together, in every process. See `arcset.centers.sharded`.
    - `bias=True` adds a trained b_j to each logit; for open-set use there is rarely a reason to, as
      a class is then no longer given by its direction alone.
    - `label_smoothing` ε: the target is 1 − ε on the label and ε spread evenly over all classes.
    - `ignore_index`: samples with this label count for nothing.
    - `gradient`: `exact`, or `straight_through`, which leaves out the margin's own slope, as
      implementations do that apply it outside of autograd (InsightFace's).

        >>> import arcset, torch
        >>> loss = arcset.build_loss("arcface", dim=2, classes=3, scale=16.0, margin=0.5)
        >>> loss.set_centers(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
        >>> loss.logits(torch.tensor([[5.0, 0.0]]))
        tensor([[ 16.,   0., -16.]], grad_fn=<MulBackward0>)
        >>> loss.logits(torch.tensor([[5.0, 0.0]]), torch.tensor([0]))[0, 0].item()  # 16 cos 0.5
        14.041...
    """

    step: Tensor

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        margin: Margin,
        scale: float,
        subcenters: int = 1,
        mode: str = "auto",
        sample: float = 1.0,
        unbiased: bool = True,
        storage: str = "float32",
        bias: bool = False,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
        gradient: str = "exact",
        group: Any = None,
    ) -> None:
        super().__init__(dim, classes)
        self._scale = check_number("scale", scale, 0, 1e6, closed="neither")
        self.subcenters = check_count("subcenters", subcenters, 1, 10_000)
        self.label_smoothing = check_number("label_smoothing", label_smoothing, 0, 1)
        if ignore_index is not None:
            self.ignore_index = check_count("ignore_index", ignore_index, -(2**63))
        self.sample = check_number("sample", sample, 0, 1, closed="right")
        self.unbiased = check_bool("unbiased", unbiased)
        self.mode = check_choice("mode", mode, MODES)
        self.gradient = check_choice("gradient", gradient, GRADIENTS)
        self.margin = margin
        shard = Shard.of(group, self.classes)
        if shard.shared and self.mode == "plain":
            raise OptionError("mode=plain keeps all centers in one process: leave group out")
        self.head = Centers(
            self.dim,
            self.classes,
            subcenters=self.subcenters,
            bias=check_bool("bias", bias),
            dtype=STORAGES[check_choice("storage", storage, STORAGES)],
            shard=shard,
        )
        margin.bind(self.classes)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @property
    def shared(self) -> bool:
        return self.head.shard.shared

    @property
    def scale(self) -> float:
        """s: as given or chosen, or as the margin has found it by now."""
        return float(self.margin.scale) if self.margin.finds_scale else self._scale

    @property
    def laws(self) -> frozenset[Law]:
        """Those of every loss with a classifier, and the margin's own."""
        laws = {Law.FINITE, Law.REFERENCE, Law.MEAN, Law.ROUND_TRIP, Law.PLAIN_LOGITS}
        laws |= self.margin.laws
        if self.gradient == "straight_through":
            laws.discard(Law.GRADIENT)
        if self.head.bias is not None or self.label_smoothing > 0 or self.subcenters > 1:
            laws.discard(Law.NEUTRAL)
        return frozenset(laws)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """Mean over the batch of −log softmax at the margined target.

        With a group, over the batches of all processes together, all of which give weights or none
        does. `reduction="none"` then gives the losses of this process's own samples; the gradient
        is that of the mean over the processes of what each makes of them, as
        DistributedDataParallel has it.
        """
        norms, shard, given = None, self.head.shard, labels
        if isinstance(shard, SharedShard):
            embeddings, norms, labels, weights = self._gather(
                shard, embeddings, labels, weights, reduction
            )
        else:
            labels = check_batch(self, embeddings, labels)
            weights = check_weights(weights, reduction, embeddings)
        counts = None
        if self.ignore_index is not None:
            counts = labels != self.ignore_index
            embeddings, labels = embeddings[counts], labels[counts]
            norms = None if norms is None else norms[counts]
            weights = None if weights is None else weights[counts]
        if len(labels) == 0 and reduction == "mean":
            return widen(embeddings).sum()  # 0, and 0 as a gradient
        losses = self._losses(embeddings, labels, norms)  # (B,)
        value = reduce_losses(losses, weights, reduction)
        if reduction == "none" and counts is not None:
            value = place_rows(value, counts)
        if reduction == "none" and isinstance(shard, SharedShard):
            value = shard.own_rows(value, len(given))
        return value

    def _losses(self, embeddings: Tensor, labels: Tensor, norms: Tensor | None) -> Tensor:
        """−log softmax at the margined target of each sample, (B,), with the margin's penalty."""
        if len(labels) == 0:
            return widen(embeddings).sum(dim=1)
        sampled = None
        if self.training and self.sample < 1:
            local = self.head.shard.local_labels(labels)
            sampled = sample_classes(local, self.head.classes, self.sample, weighted=self.unbiased)
        rows = (self.head.classes if sampled is None else len(sampled)) * self.subcenters
        dtype = common_dtype(embeddings, self.head.weight)
        idle = self.head.memory.idle()
        mode = choose_mode(self.mode, len(labels), rows, dtype, embeddings.device, idle)
        if mode == "plain" and (self.shared or (self.update and self.training)):
            mode = "recompute"  # only the fused ways know how to update, and to share
        elif self.margin.alters_negatives and any(True for _ in self.margin.parameters()):
            mode = "plain"  # only ordinary operations reach parameters of the hook
        with torch.autocast(embeddings.device.type, enabled=False):
            batch = self._batch(embeddings, labels, norms)
            if mode == "plain":
                losses = plain_losses(self.head, batch, sampled)  # (B,)
            else:
                losses = fused_losses(self.head, batch, store=mode == "store", sampled=sampled)
            penalty = self.margin.penalty(batch.samples)
            return losses if penalty is None else losses + penalty

    def _gather(
        self,
        shard: SharedShard,
        embeddings: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        reduction: str,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Unit rows, their lengths, labels and weights of all processes, from those given here."""
        try:
            labels = check_batch(self, embeddings, labels, least=0)
            weights = check_weights(weights, reduction, embeddings)
        except (InputError, OptionError):
            shard.fail(self.head.weight.device)  # so that no process waits
            raise
        with torch.autocast(embeddings.device.type, enabled=False):
            every = shard.gather(*unit_rows(widen(embeddings)), labels)
            if weights is not None:
                weights = shard.all_rows(weights.to(every[1].dtype))
            return *every, weights

    def logits(self, embeddings: Tensor, labels: Tensor | None = None) -> Tensor:
        """s·cos θ_j (B, C); with labels, the target column carries the margin."""
        if self.shared:
            raise OptionError("logits of all classes cannot be formed where centers are shared out")
        with torch.autocast(check_embeddings(self, embeddings).device.type, enabled=False):
            if labels is None:
                return plain_logits(self.head, embeddings, self.scale)
            labels = check_batch(self, embeddings, labels)
            if self.ignore_index is None or not bool((labels == self.ignore_index).any()):
                return margined_logits(self.head, self._batch(embeddings, labels))
            counts = labels != self.ignore_index
            seen = margined_logits(self.head, self._batch(embeddings, labels * counts))
            return torch.where(counts[:, None], seen, self.logits(embeddings))

    def _batch(
        self, embeddings: Tensor, labels: Tensor, norms: Tensor | None = None
    ) -> MarginBatch:
        return MarginBatch.of(
            embeddings,
            labels,
            self.margin,
            self.scale,
            step=int(self.step),
            smoothing=self.label_smoothing,
            straight_through=self.gradient == "straight_through",
            norms=norms,
        )

    @torch.no_grad()
    def classify(self, embeddings: Tensor, among: int | None = None) -> Tensor:
        """The class (B,) of the highest logit, by parts: no (B, C) matrix is made.

        With a group, all processes have to ask together, and for the same embeddings.
        """
        unit = unit_rows(widen(check_embeddings(self, embeddings)))[0]
        return self.head.nearest(unit, self.scale, self.classes if among is None else among)

    @property
    def centers(self) -> Tensor:
        """Unit rows (C, D); with sub-centers, each class's dominant one.

        With a group, all processes have to ask together.
        """
        return self.head.shard.gather_classes(self.head.dominant().detach())

    @property
    def biases(self) -> Tensor | None:
        if self.head.bias is None:
            return None
        return self.head.shard.gather_classes(self.head.bias.detach())

    def trained_centers(self) -> Tensor:
        if self.subcenters > 1:
            raise OptionError(f"with subcenters={self.subcenters} a class has no single center")
        if self.shared:
            raise OptionError("no process holds all centers where they are shared out")
        return self.head.weight

    def set_centers(self, full: Tensor) -> None:
        """Replace all centers; only their directions count."""
        full, shard = check_centers(self, full), self.head.shard
        self.head.set(full[shard.first : shard.last])

    def set_class_sizes(self, sizes: Tensor) -> None:
        self.margin.set_class_sizes(sizes)

    def fuse_update(self, kind: str, **options: float | bool) -> CenterUpdate:
        return self.head.fuse_update(kind, **options)

    @property
    def update(self) -> CenterUpdate | None:
        return self.head.update

    def advance(self, steps: int = 1) -> None:
        self.step += steps

    def settings(self) -> dict[str, float | str]:
        """The scale, unless the margin finds it, and the margin's own options."""
        scale = {} if self.margin.finds_scale else {"scale": self._scale}
        return {**scale, **self.margin.settings()}

    def extra_repr(self) -> str:
        """Dimension, classes, scale and margin; other options where they are not the usual ones."""
        options = {"subcenters": self.subcenters, "mode": self.mode, "sample": self.sample}
        usual = {"subcenters": 1, "mode": "auto", "sample": 1.0}
        special = {option: value for option, value in options.items() if value != usual[option]}
        if self.margin.finds_scale and not self.margin.scale.is_meta:
            special["scale"] = self.scale
        return ", ".join(filter(None, (super().extra_repr(), format_options(special))))

    def _get_name(self) -> str:
        return type(self.margin).__name__
