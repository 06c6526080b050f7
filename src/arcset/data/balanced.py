"""Identity-balanced batches: P classes with K samples each, as losses on pairs and triplets need.

images, labels = to_tensors(selection.train, device)
for index in balanced_batches(labels, 32, 4, seed=0, epoch=epoch, device=device):
    loss(network(as_float(images.index_select(0, index))), labels.index_select(0, index))
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from arcset.data.batches import epoch_seed
from arcset.errors import InputError, OptionError

__all__ = ["balanced_batch_count", "balanced_batches"]


def balanced_batch_count(labels: Tensor, classes_per_batch: int, samples_per_class: int) -> int:
    """How many batches `balanced_batches` yields: ⌈N / (P K)⌉, N samples or a few more.

    >>> balanced_batch_count(torch.tensor([0, 0, 0, 1, 1, 2, 2]), 2, 2)
    2
    """
    _check_labels(labels)
    classes = len(labels.unique())
    return _count(len(labels), classes, classes_per_batch, samples_per_class)


def balanced_batches(
    labels: Tensor,
    classes_per_batch: int,
    samples_per_class: int,
    *,
    seed: int,
    epoch: int,
    device: torch.device | str = "cpu",
) -> Iterator[Tensor]:
    """Index tensors, int64 (P·K,): P different classes, K samples of one class after the other.

    `labels` (N,) int64 are those of the samples, and may leave numbers out. Over the epoch, each
    class is drawn as often as any other, or once less, however many samples it has. A class goes
    through all of its samples, in random order, before one comes again; within a batch a sample
    comes twice only where its class has fewer than K. So large classes show a part of their samples
    per epoch, another one in the next. There are `balanced_batch_count` batches, all of P·K.

    The order depends on `seed` and `epoch` alone, not on the device nor on what was drawn before.
    Raises `OptionError` where the labels have fewer than P classes.

        >>> labels = torch.tensor([7, 7, 7, 4, 4, 9, 9])
        >>> [labels[index].tolist() for index in balanced_batches(labels, 2, 2, seed=0, epoch=0)]
        [[9, 9, 4, 4], [7, 7, 4, 4]]
    """
    _check_labels(labels)
    labels = labels.cpu()
    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    order = torch.randperm(len(labels), generator=generator)
    by_class = order[labels[order].argsort(stable=True)]  # classes in turn, each shuffled
    sizes = labels[by_class].unique_consecutive(return_counts=True)[1]  # (C,)
    starts = sizes.cumsum(0) - sizes  # (C,)
    classes = len(sizes)
    batches = _count(len(labels), classes, classes_per_batch, samples_per_class)
    slots = batches * classes_per_batch
    chosen = _passes(classes, classes_per_batch, slots, generator)  # (slots,)
    # Each pass draws every class once: in pass t a class gives its samples t K … t K + K − 1,
    # counted around.
    turn = torch.arange(slots) // classes  # (slots,)
    place = turn[:, None] * samples_per_class + torch.arange(samples_per_class)  # (slots, K)
    index = by_class[starts[chosen][:, None] + place % sizes[chosen][:, None]]
    return iter(index.reshape(batches, -1).to(device).unbind())


def _passes(classes: int, per_batch: int, slots: int, generator: torch.Generator) -> Tensor:
    """`slots` class numbers: passes through all classes, each in random order, such that no batch
    holds a class twice even where one pass ends and the next begins."""
    chosen = torch.empty(slots, dtype=torch.int64)
    for begin in range(0, slots, classes):
        order = torch.randperm(classes, generator=generator)
        begun = begin % per_batch  # so many of this batch are from the pass before
        if begun > 0:
            order = _led_by_others(order, chosen[begin - begun : begin], per_batch - begun)
        chosen[begin : begin + classes] = order[: slots - begin]
    return chosen


def _led_by_others(order: Tensor, taken: Tensor, lead: int) -> Tensor:
    """`order` with its first `lead` swapped where need be, so that none of them is `taken`.

    Those taken and those leading make a batch, of no more classes than there are: so behind the
    lead stand at least as many that are not taken as the lead has that are.
    """
    is_taken = torch.zeros(len(order), dtype=torch.bool)
    is_taken[taken] = True
    clash = is_taken[order]
    wrong = clash[:lead].nonzero().squeeze(1)
    others = (~clash[lead:]).nonzero().squeeze(1)[: len(wrong)] + lead
    order[wrong], order[others] = order[others], order[wrong]
    return order


def _check_labels(labels: Tensor) -> None:
    if labels.ndim != 1 or labels.dtype != torch.int64 or len(labels) == 0:
        raise InputError(
            f"labels must be int64 (N,) of at least one sample, "
            f"not {labels.dtype} {tuple(labels.shape)}"
        )


def _count(samples: int, classes: int, classes_per_batch: int, samples_per_class: int) -> int:
    if classes_per_batch < 1 or samples_per_class < 1:
        raise OptionError(
            f"classes_per_batch and samples_per_class must be at least 1, "
            f"not {classes_per_batch} and {samples_per_class}"
        )
    if classes_per_batch > classes:
        raise OptionError(
            f"classes_per_batch={classes_per_batch}: the samples have {classes} classes; "
            f"take at most {classes}"
        )
    return -(-samples // (classes_per_batch * samples_per_class))
