"""Which samples are probably mislabelled: far from their class's dominant sub-center."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from arcset.centers.storage import class_rows
from arcset.checks import check_number
from arcset.errors import OptionError
from arcset.losses.base import AuxiliaryLoss, Loss, check_batch
from arcset.losses.margin_softmax import MarginSoftmax
from arcset.numerics import angle, common_dtype, unit_rows, widen

_AT_ONCE = 4096  # samples


@dataclass(frozen=True)
class Suspects:
    """Samples farther than `limit` degrees from their class's dominant center, farthest first."""

    limit: float  # degrees
    total: int  # samples looked at
    positions: tuple[int, ...]  # of the suspects, in what was given
    labels: tuple[int, ...]
    degrees: tuple[float, ...]  # from the dominant center
    nearest: tuple[int, ...]  # which of its class's sub-centers each is nearest to
    dominant: tuple[int, ...]  # which of them is the dominant one

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def trusted(self) -> Tensor:
        """True for every sample that is no suspect, (N,) bool: what to train on next."""
        mask = torch.ones(self.total, dtype=torch.bool)
        mask[list(self.positions)] = False
        return mask

    def table(self, rows: int = 20, names: Sequence[str] = ()) -> str:
        """The farthest few, to read. names: of the classes."""
        share = len(self) / max(self.total, 1)
        lines = [
            f"{len(self):,} of {self.total:,} samples ({share:.1%}) lie more than {self.limit:g}° "
            "from their class's dominant center"
        ]
        if len(self):
            lines.append(f"{'position':>10} {'label':>8} {'angle':>8}  nearest sub-center")
        for i in range(min(rows, len(self))):
            own = " (dominant)" if self.nearest[i] == self.dominant[i] else ""
            label = names[self.labels[i]] if names else self.labels[i]
            lines.append(
                f"{self.positions[i]:>10} {label:>8} {self.degrees[i]:>7.1f}°  "
                f"{self.nearest[i]}{own}"
            )
        if len(self) > rows:
            lines.append(f"… and {len(self) - rows:,} more")
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        return asdict(self)


@torch.no_grad()
def suspect_samples(
    loss: Loss, embeddings: Tensor, labels: Tensor, *, degrees: float = 75.0
) -> Suspects:
    """List the samples whose label is doubtful, by a loss trained with `subcenters` > 1.

    Clean samples of a class gather around one of its sub-centers, wrong ones around the others.
    The dominant sub-center is the one that most of the given samples of the class are nearest to;
    a sample farther than `degrees` from it is a suspect. Drop these (`suspects.trusted`) and train
    again with one center per class.

    Paper: Deng, Guo, Liu, Gong, Zafeiriou: Sub-center ArcFace, ECCV 2020 (K = 3, 75°).

        >>> import arcset
        >>> loss = arcset.build_loss("arcface", dim=2, classes=2, subcenters=2)
        >>> loss.set_centers(torch.eye(2))
        >>> with torch.no_grad():
        ...     _ = loss.head.weight[1].copy_(torch.tensor([-1.0, 0.0]))  # class 0's other one
        >>> embeddings = torch.tensor([[3.0, 0.1], [2.0, 0.2], [-1.0, 0.1], [0.0, 1.0]])
        >>> print(suspect_samples(loss, embeddings, torch.tensor([0, 0, 0, 1])).table())
        1 of 4 samples (25.0%) lie more than 75° from their class's dominant center
          position    label    angle  nearest sub-center
                 2        0   174.3°  1

    Raises:
        OptionError: the loss has no class centers that are compared by angle.
    """
    holder = loss.base if isinstance(loss, AuxiliaryLoss) else loss
    if not isinstance(holder, MarginSoftmax):
        raise OptionError(f"{type(holder).__name__.lower()} has no centers to measure angles from")
    limit = check_number("degrees", degrees, 0, 1e6)
    labels = check_batch(holder, embeddings, labels)
    counted = labels != holder.ignore_index if holder.ignore_index is not None else labels >= 0
    positions = counted.nonzero().squeeze(1)
    angles = _own_angles(holder, embeddings[positions], labels[positions])  # (n, K)
    own, nearest = labels[positions], angles.argmin(dim=1)
    votes = torch.zeros(holder.classes, holder.subcenters, dtype=torch.int64, device=own.device)
    votes.index_put_((own, nearest), torch.ones_like(own), accumulate=True)
    dominant = votes.argmax(dim=1)[own]  # (n,)
    away = angles.gather(1, dominant[:, None]).squeeze(1)  # (n,)
    far = (away > limit).nonzero().squeeze(1)
    far = far[away[far].argsort(descending=True, stable=True)]
    return Suspects(
        limit,
        len(labels),
        tuple(positions[far].tolist()),
        tuple(own[far].tolist()),
        tuple(away[far].tolist()),
        tuple(nearest[far].tolist()),
        tuple(dominant[far].tolist()),
    )


def _own_angles(loss: MarginSoftmax, embeddings: Tensor, labels: Tensor) -> Tensor:
    """Degrees between each sample and each sub-center of its own class, (n, K)."""
    count = loss.subcenters
    parts = [embeddings.new_empty(0, count, dtype=torch.float32)]
    for rows, own in zip(embeddings.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True):
        unit, _ = unit_rows(widen(rows))  # (n, D)
        centers, _ = unit_rows(widen(loss.head.weight[class_rows(own, count)]))  # (n·K, D)
        dtype = common_dtype(unit, centers)
        pairs = centers.to(dtype).unflatten(0, (-1, count)) @ unit.to(dtype)[:, :, None]
        parts.append(torch.rad2deg(angle(pairs.squeeze(2))))
    return torch.cat(parts)
