"""What the processes tell each other in a step."""

from dataclasses import dataclass

from arcset.margins import MARGINS
from arcset.planning.network import network_cost
from arcset.planning.setting import Setting

__all__ = ["Transfer", "plan_traffic"]

_WIDE, _INDEX = 4, 8  # bytes of float32 and int64


@dataclass(frozen=True)
class Transfer:
    """One collective.

    Fields:
        what: is exchanged.
        how: gather or reduce, as torch.distributed calls them.
        size: bytes of the result, which every process has afterwards.
        sent: bytes that each process sends, and receives, around a ring.
    """

    what: str
    how: str
    size: int
    sent: int


def plan_traffic(setting: Setting) -> list[Transfer]:
    """Every collective of a training step, in its order; none for a single process.

    >>> [one.what for one in plan_traffic(Setting(classes=1000, processes=2))][-1]
    'gradient of the embeddings'
    """
    if setting.processes == 1:
        return []
    batch, dim, margin = setting.together, setting.dim, MARGINS[setting.loss]
    found = [
        _gathered(setting, "sizes of the shares", setting.processes * _INDEX),
        _gathered(setting, "embeddings", batch * dim * _WIDE),
        _gathered(setting, "their lengths", batch * _WIDE),
        _gathered(setting, "labels", batch * _INDEX),
    ]
    if setting.subcenters > 1 or margin.alters_negatives:
        found.append(_reduced(setting, "nearest own centers", batch * _WIDE))
    nearest = margin().nearest if margin.alters_negatives else 0
    if nearest:
        size = setting.processes * nearest * batch * _WIDE
        found.append(_gathered(setting, "nearest wrong classes", size))
    found += [
        _reduced(setting, "maxima of the softmax", batch * _WIDE),
        _reduced(setting, "its sums and target cosines", 3 * batch * _WIDE),
        _reduced(setting, "gradient of the embeddings", batch * dim * _WIDE),
    ]
    weights = network_cost(setting.network, dim, setting.shape, setting.batch).weights
    if weights:
        found.append(_reduced(setting, "gradient of the network", weights))
    return found


def _gathered(setting: Setting, what: str, size: int) -> Transfer:
    others = setting.processes - 1
    return Transfer(what, "all_gather", size, size * others // setting.processes)


def _reduced(setting: Setting, what: str, size: int) -> Transfer:
    others = setting.processes - 1
    return Transfer(what, "all_reduce", size, 2 * size * others // setting.processes)
