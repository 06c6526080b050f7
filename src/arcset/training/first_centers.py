"""Where class centers begin when the network is trained already: at the old, or at the means."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from arcset.losses import Loss
from arcset.losses.auxiliary import AuxiliaryLoss
from arcset.losses.center import Center
from arcset.losses.margin_softmax import MarginSoftmax
from arcset.models import embed
from arcset.numerics import unit_rows
from arcset.training.feeding import Feed

__all__ = ["begin_centers", "class_means"]

_BATCH = 1024  # images that are in memory at a time
_APART = 0.1  # of its length, by which the further sub-centers of a class begin elsewhere
_SEED = 715_225_739  # of where; nobody's choice


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

    A class with one source has its center, and its bias, unchanged (with another number of
    sub-centers, its dominant one). One with several begins at the
    mean of their directions. A new one begins at the mean of its samples' embeddings, of unit
    length for a cosine loss. Their lengths are the median of the old centers'; the biases of new
    classes are 0. Turned and mirrored classes are new: no run keeps their centers. Where one of the
    losses goes by cosine and the other does not, or the old has no centers, all begin at means.
    Of shared centers every process begins its own.
    """
    head = _Head.of(loss)
    if head is None:
        return
    trained = _Head.of(old) if old.normalized == loss.normalized else None
    here = range(head.first, head.first + len(head.weight) // head.each)
    known = {}
    if trained is not None:
        known = {place: rows for place, rows in enumerate(sources) if rows and place in here}
    length = (trained or head).weight.norm(dim=1).median().item()
    new = _numbers(place for place in here if place not in known)
    head.put(new, *class_means(network, feed, new, unit=loss.normalized), length)
    if trained is not None:
        single = [(place, rows[0]) for place, rows in known.items() if len(rows) == 1]
        if trained.each == head.each:
            pairs = torch.tensor(single, dtype=torch.int64).reshape(-1, 2)
            head.copy(pairs[:, 0], trained, pairs[:, 1])
            known = {place: rows for place, rows in known.items() if len(rows) > 1}
        for place, rows in known.items():
            head.merge(place, trained, old, list(rows), length)
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


class _Head:
    """The centers of a loss as they are trained: `each` rows per class, maybe with a bias.

    They are those of the classes from `first` on; elsewhere here, classes go by their numbers
    among all.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        usage: Tensor | None = None,
        each: int = 1,
        first: int = 0,
    ) -> None:
        self.weight, self.bias, self.usage, self.each = weight, bias, usage, each
        self.first = first

    @classmethod
    def of(cls, loss: Loss) -> "_Head | None":
        while isinstance(loss, AuxiliaryLoss):
            loss = loss.base
        if not loss.classifies:
            return None
        if isinstance(loss, MarginSoftmax):
            usage = loss.head.usage if loss.subcenters > 1 else None
            first = 0 if loss.head.shard is None else loss.head.shard.first
            return cls(loss.head.weight, loss.head.bias, usage, loss.subcenters, first)
        return cls(loss.trained_centers(), loss.biases)

    def put(self, places: Tensor, means: Tensor, counts: Tensor, length: float) -> None:
        """Begin the classes `places` (n,) in the direction of `means` (n, D), where there is one;
        others keep the direction they have."""
        told = (counts > 0) & (means.norm(dim=1) > 0)
        blind = self._rows(places[~told])
        self.weight[blind] = unit_rows(self.weight[blind])[0] * length
        rows = unit_rows(means[told])[0] * length  # (m, D)
        if self.each > 1:
            rows = torch.cat(
                [
                    self._parted(row, place)
                    for place, row in zip(places[told].tolist(), rows, strict=True)
                ]
                or [rows]
            )
        self.weight[self._rows(places[told])] = rows.to(self.weight)
        if self.bias is not None:
            self.bias[self._places(places, self.bias)] = 0.0

    def copy(self, places: Tensor, old: "_Head", rows: Tensor) -> None:
        """Begin each of the classes `places` (n,) as that of `rows` (n,) is, bit for bit."""
        theirs = old.weight[old._rows(rows)]
        self.weight[self._rows(places)] = theirs.to(self.weight)
        for mine, other in ((self.bias, old.bias), (self.usage, old.usage)):
            if mine is not None and other is not None:
                mine[self._places(places, mine)] = other[old._places(rows, other)].to(mine)

    def merge(self, place: int, old: "_Head", loss: Loss, rows: list[int], length: float) -> None:
        """Begin the class `place` at the mean direction of the classes `rows` of an old loss."""
        centers = loss.centers
        assert centers is not None
        directions = unit_rows(centers[rows].double())[0]
        mean = unit_rows(directions.mean(dim=0, keepdim=True))[0][0] * length
        self.weight[self._rows(torch.tensor([place]))] = self._parted(mean, place)
        if self.bias is not None and old.bias is not None:
            self.bias[place - self.first] = old.bias[rows].mean()

    def _rows(self, places: Tensor) -> Tensor:
        each = torch.arange(self.each)
        rows = (places[:, None] - self.first) * self.each + each
        return rows.flatten().to(self.weight.device)

    def _places(self, places: Tensor, of: Tensor) -> Tensor:
        """Of classes, where their entries stand in a tensor with one entry for each."""
        return (places - self.first).to(of.device)

    def _parted(self, row: Tensor, number: int) -> Tensor:
        """A class's rows (K, D): the first is `row` (D,), and the others lie a little beside it,
        each its own way, as rows that are equal would stay so."""
        generator = torch.Generator().manual_seed(_SEED + number)
        ways = torch.randn(self.each, len(row), generator=generator, dtype=torch.float64)
        ways = unit_rows(ways)[0] * _APART * row.norm().cpu()
        ways[0] = 0
        parted: Tensor = row.cpu() + ways
        return parted.to(self.weight)


def _numbers(values: Iterable[int]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int64)


def _begin_means(
    loss: Center, old: Loss, sources: Sequence[Sequence[int]], network: nn.Module, feed: Feed
) -> None:
    """The means that center loss pulls to: the old, or those of the embeddings as they are."""
    theirs = old.means if isinstance(old, Center) else None
    known = {place: rows for place, rows in enumerate(sources) if rows and theirs is not None}
    new = _numbers(place for place in range(loss.classes) if place not in known)
    if len(new):
        means, _ = class_means(network, feed, new, unit=False)
        loss.means[new.to(loss.means.device)] = means.to(loss.means)
    for place, rows in known.items():
        assert theirs is not None
        loss.means[place] = theirs[list(rows)].mean(dim=0).to(loss.means)
