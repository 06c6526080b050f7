"""Where class centers begin when the network is trained already: at the old, or at the means."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from arcset.losses import Loss
from arcset.losses.center import Center
from arcset.losses.transfer import Head, regrow
from arcset.numerics import unit_rows
from arcset.runs.model import embed
from arcset.training.feeding import Feed

__all__ = ["begin_centers", "class_means"]

_BATCH = 1024  # images that are in memory at a time


@torch.no_grad()
def begin_centers(
    loss: Loss,
    old: Loss,
    sources: Sequence[Sequence[int]],
    network: nn.Module,
    feed: Feed,
    *,
    same: bool,
) -> None:
    """Set the centers of `loss` from a trained one, `old`, and from the samples.

    sources: of every class, its classes in `old`; none for a new one, several for one merged.
    network: trained, whose embeddings `feed`'s samples get.
    same: whether it is the same loss, so that what it has counted on the way carries over.

    Known classes begin as `regrow` says. A new one begins at the mean of its samples' embeddings,
    of unit length for a cosine loss; its length is the median of the old centers', its bias 0.
    Turned and mirrored classes are new: no run keeps their centers. Of shared centers every process
    begins its own.
    """
    head = Head.of(loss)
    if head is None:
        return
    new, length = regrow(loss, old, sources)
    head.put(new, *class_means(network, feed, new, unit=loss.normalized), length)
    if isinstance(loss, Center):
        _begin_means(loss, old, sources, network, feed)
    if same:
        counted, state = old.state_dict(), loss.state_dict()
        for name, value in counted.items():
            if value.ndim == 0 and name in state and not name.endswith("step"):
                state[name].copy_(value)


@torch.no_grad()
def class_means(
    network: nn.Module, feed: Feed, labels: Tensor, *, unit: bool
) -> tuple[Tensor, Tensor]:
    """The mean embedding (n, D) of each of the classes `labels` (n,), and its images' number (n,).

    The embeddings of all training images, as they are or, with `unit`, of length 1, by the network
    in evaluation mode; of turned classes those of turned images. Sums are in float64.
    """
    classes, samples = feed.classes, feed.samples
    place = torch.full((classes * feed.transforms.count,), -1)
    place[labels] = torch.arange(len(labels))
    own, total = samples.labels.cpu(), None
    counts = torch.zeros(len(labels), dtype=torch.int64)
    for turned in range(feed.transforms.count):
        wanted = place[own + turned * classes]  # (N,)
        for index in filter(len, (wanted >= 0).nonzero().squeeze(1).split(_BATCH)):
            images = samples.take(index.to(samples.device))
            if turned:
                which = torch.full((len(index),), turned, device=samples.device)
                images = feed.transforms.apply(images, which)
            found = embed(network, images).cpu().double()
            rows = unit_rows(found)[0] if unit else found
            if total is None:
                total = rows.new_zeros(len(labels), rows.shape[1])
            total.index_add_(0, wanted[index], rows)
            counts += torch.bincount(wanted[index], minlength=len(labels))
    if total is None:
        return torch.zeros(len(labels), 1, dtype=torch.float64), counts
    return total / counts.clamp(min=1)[:, None], counts


def _begin_means(
    loss: Center, old: Loss, sources: Sequence[Sequence[int]], network: nn.Module, feed: Feed
) -> None:
    """The means that center loss pulls to: the old, or those of the embeddings as they are."""
    theirs = old.means if isinstance(old, Center) else None
    known = {place: rows for place, rows in enumerate(sources) if rows and theirs is not None}
    new = torch.tensor([place for place in range(loss.classes) if place not in known]).long()
    if len(new):
        means, _ = class_means(network, feed, new, unit=False)
        loss.means[new.to(loss.means.device)] = means.to(loss.means)
    for place, rows in known.items():
        assert theirs is not None
        loss.means[place] = theirs[list(rows)].mean(dim=0).to(loss.means)
