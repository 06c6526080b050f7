"""How long a step takes at least, from a machine's rates.

Everything that a step does is counted as arithmetic, as bytes of plain passes, as bytes of rows
fetched by number, or as bytes sent; each is divided by the rate at which the machine does nothing
else. So this is a floor: calls, waiting and cold caches come on top.
"""

from arcset.planning.machine import LOGIT_PASSES, Machine
from arcset.planning.memory import Memory
from arcset.planning.network import network_cost
from arcset.planning.setting import Setting
from arcset.planning.traffic import Transfer

__all__ = ["plan_seconds"]

_WIDE = 4
#: Times that a row is read or written by torch's optimizers, its gradient included.
_OPTIMIZER_PASSES = {"sgd": 11, "adamw": 18}
_ROUNDING_PASSES = 10  # over a row, in float32, that is rounded to bfloat16


def plan_seconds(
    setting: Setting, memory: Memory, traffic: list[Transfer], machine: Machine
) -> dict[str, float]:
    """Seconds of a step by what takes them; traffic only where the machine's network is known."""
    found = {"products with the centers": _products(setting, memory) / machine.flops}
    found["passes over the logits"] = (
        LOGIT_PASSES * setting.drawn * setting.together * _WIDE / machine.passes
    )
    found.update(_rows(setting, machine))
    cost = network_cost(setting.network, setting.dim, setting.shape, setting.batch)
    if cost.flops:
        passes = _OPTIMIZER_PASSES[setting.optimizer] * cost.weights
        found["network"] = cost.flops / machine.convolving + passes / machine.bandwidth
    if traffic and machine.network:
        sent = sum(one.sent for one in traffic)
        found["traffic"] = sent / machine.network + len(traffic) * machine.latency
    return found


def _products(setting: Setting, memory: Memory) -> float:
    """There, back to the embeddings, back to the centers; and once more where logits are formed
    anew."""
    count = 4 if memory.mode == "recompute" else 3
    return count * 2.0 * setting.drawn * setting.dim * setting.together


def _rows(setting: Setting, machine: Machine) -> dict[str, float]:
    """Reading the centers, and updating them."""
    item = setting.dtype.itemsize
    some, every = (count * setting.dim * item for count in (setting.drawn, setting.rows))
    fetching = 0.0
    updating = 0.0
    if setting.sample < 1:
        fetching = 2 * some / machine.rows
    if setting.update is None:
        passes = _OPTIMIZER_PASSES[setting.optimizer] + (setting.sample < 1)
        updating = passes * every / machine.bandwidth
    else:
        state = some if setting.update == "sgd" else 0
        moved = 2 * (some + state)  # read and written
        updating = moved / (machine.rows if setting.sample < 1 else machine.bandwidth)
        if setting.storage == "bfloat16":
            wide = setting.drawn * setting.dim * _WIDE * (2 if state else 1)
            updating += _ROUNDING_PASSES * wide / machine.passes  # by pieces that a cache holds
    found = {"fetching rows": fetching} if fetching else {}
    return {**found, "updating the centers": updating}
