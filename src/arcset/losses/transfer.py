"""Class centers for other classes than before: some added, some removed, some merged."""

from collections.abc import Sequence

import torch
from torch import Tensor

from arcset.centers.storage import class_rows
from arcset.errors import OptionError
from arcset.losses.base import AuxiliaryLoss, Loss
from arcset.losses.margin_softmax import MarginSoftmax
from arcset.numerics import unit_rows

_APART = 0.1  # of its length, by which the further sub-centers of a class begin elsewhere
_SEED = 715_225_739  # of these directions: any fixed number


@torch.no_grad()
def regrow(loss: Loss, old: Loss, sources: Sequence[Sequence[int]]) -> tuple[Tensor, float]:
    """Give the classes of `loss` the centers that they had in `old`.

    sources: of every class, its classes in `old`: none for a new one, several for one merged.

    A class with one source has its center, and its bias, unchanged (with another number of
    sub-centers, its dominant one). One with several begins at the mean of their directions, with
    the median length of the old centers. New ones keep the direction they have, with that length.
    Where one of the losses goes by cosine and the other does not, or the old has no centers, all
    are new. Of shared centers every process takes its own; `old` must hold all of its own, and may
    do so on the disk:

        with torch.device("meta"):
            old = arcset.build_loss("arcface", dim=512, classes=1_000_000)
        old.load_state_dict(safetensors.torch.load_file("loss.safetensors"), assign=True)

    Returns the new classes (n,), as far as they are here, and that length. Raises `OptionError`
    where `sources` does not fit.
    """
    head = Head.of(loss)
    if head is None:
        raise OptionError("this loss has no class centers")
    if old.shared:
        raise OptionError("the old centers must not be shared out: export them to one file first")
    if loss.dim != old.dim:
        raise OptionError(f"the old centers have {old.dim} dimensions, and the new {loss.dim}")
    if len(sources) > loss.classes or any(
        not 0 <= row < old.classes for rows in sources for row in rows
    ):
        raise OptionError(
            f"sources must name, for {loss.classes:,} classes at most, classes from 0 to "
            f"{old.classes - 1:,}"
        )
    trained = Head.of(old) if old.normalized == loss.normalized else None
    length = (trained or head).weight.norm(dim=1).median().item()
    known = {}
    if trained is not None:
        known = {
            number: list(rows)
            for number, rows in enumerate(sources)
            if rows and number in head.numbers
        }
    new = torch.tensor([number for number in head.numbers if number not in known]).long()
    head.put(new, torch.zeros(len(new), 1), torch.zeros(len(new)), length)
    if trained is not None:
        same = {
            number: rows[0]
            for number, rows in known.items()
            if len(rows) == 1 and trained.per_class == head.per_class
        }
        head.copy(torch.tensor([*same]).long(), trained, torch.tensor([*same.values()]).long())
        for number, rows in known.items():
            if number not in same:
                head.merge(number, trained, rows, length)
    return new, length


class Head:
    """The centers of a loss as they are trained: `per_class` rows each, maybe with a bias.

    They are those of the classes from `first` on; elsewhere here, classes go by their numbers
    among all.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        usage: Tensor | None = None,
        per_class: int = 1,
        first: int = 0,
    ) -> None:
        self.weight, self.bias, self.usage, self.per_class = weight, bias, usage, per_class
        self.first = first

    @property
    def numbers(self) -> range:
        """Of the classes that are here."""
        return range(self.first, self.first + len(self.weight) // self.per_class)

    @classmethod
    def of(cls, loss: Loss) -> "Head | None":
        """That of a loss; None where it has no centers."""
        while isinstance(loss, AuxiliaryLoss):
            loss = loss.base
        if not loss.classifies:
            return None
        if isinstance(loss, MarginSoftmax):
            usage = loss.head.usage if loss.subcenters > 1 else None
            head = loss.head
            return cls(head.weight, head.bias, usage, loss.subcenters, head.shard.first)
        return cls(loss.trained_centers(), loss.biases)

    def put(self, classes: Tensor, means: Tensor, counts: Tensor, length: float) -> None:
        """Begin `classes` (n,) in the direction of `means` (n, D), where there is one, and with
        `length`; others keep the direction they have."""
        given = (counts > 0) & (means.norm(dim=1) > 0)
        blind = self._rows(classes[~given])
        self.weight[blind] = unit_rows(self.weight[blind])[0] * length
        rows = unit_rows(means[given])[0] * length  # (m, D)
        if self.per_class == 1:
            self.weight[self._rows(classes[given])] = rows.to(self.weight)
        else:
            for number, row in zip(classes[given].tolist(), rows, strict=True):
                self._spread(number, row)
        if self.bias is not None:
            self.bias[self._entries(classes, self.bias)] = 0.0

    def copy(self, classes: Tensor, old: "Head", sources: Tensor) -> None:
        """Begin `classes` (n,) as the classes `sources` (n,) of an old loss are, bit for bit."""
        self.weight[self._rows(classes)] = old.weight[old._rows(sources)].to(self.weight)
        for mine, other in ((self.bias, old.bias), (self.usage, old.usage)):
            if mine is not None and other is not None:
                mine[self._entries(classes, mine)] = other[old._entries(sources, other)].to(mine)

    def merge(self, number: int, old: "Head", sources: list[int], length: float) -> None:
        """Begin a class at the mean direction of the classes `sources` of an old loss."""
        directions = unit_rows(old._dominant(torch.tensor(sources)).double())[0]
        self._spread(number, unit_rows(directions.mean(dim=0, keepdim=True))[0][0] * length)
        if self.bias is not None and old.bias is not None:
            self.bias[number - self.first] = old.bias[sources].mean()

    def _dominant(self, classes: Tensor) -> Tensor:
        """Of each class the one row, or the one that samples chose most, (n, D)."""
        rows = self._rows(classes).view(-1, self.per_class)
        if self.usage is None:
            return self.weight[rows[:, 0]]
        chosen = self.usage[self._entries(classes, self.usage)].argmax(dim=1).to(rows.device)
        return self.weight[rows.gather(1, chosen[:, None])[:, 0]]

    def _rows(self, classes: Tensor) -> Tensor:
        return class_rows(classes - self.first, self.per_class).to(self.weight.device)

    def _entries(self, classes: Tensor, of: Tensor) -> Tensor:
        """Where classes stand in a tensor with one entry for each."""
        return (classes - self.first).to(of.device)

    def _spread(self, number: int, row: Tensor) -> None:
        """Begin a class at `row` (D,): its further sub-centers lie a little beside it, each its own
        way, as rows that are equal would stay so."""
        generator = torch.Generator().manual_seed(_SEED + number)
        ways = torch.randn(self.per_class, len(row), generator=generator, dtype=torch.float64)
        ways = unit_rows(ways)[0] * _APART * row.norm().cpu()
        ways[0] = 0
        self.weight[self._rows(torch.tensor([number]))] = (row.cpu() + ways).to(self.weight)
