"""Shared centers beside the plain reference in one process, in float64.

torchrun --nproc-per-node=2 benchmarks/scale/exact.py STEPS NAME…

Every process trains its part, and besides the plain reference alone on the whole batch. A line of
JSON comes out: for each margin the largest difference of a loss, relative, and of an entry of the
centers.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import arcset
from arcset.launch import leave

DIM, CLASSES, INPUTS, BATCH = 8, 37, 6, 24
SGD = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(INPUTS, 16), nn.Tanh(), nn.Linear(16, DIM)).double()


def both(name: str):
    """A loss that shares its centers, updated in the backward pass, and one that has them all."""
    torch.manual_seed(2)
    whole = arcset.build_loss(name, DIM, CLASSES, mode="plain").double()
    shared = arcset.build_loss(name, DIM, CLASSES, mode="recompute", group=True).double()
    shard = shared.head.shard
    shared.head.weight.data.copy_(whole.head.weight.data[shard.first : shard.last])
    shared.fuse_update("sgd", **SGD)
    return shared, whole, slice(shard.first, shard.last)


def batch(number: int, rank: int, count: int):
    """Inputs and labels of all, and which rows are this process's: uneven shares."""
    generator = torch.Generator().manual_seed(number)
    inputs = torch.randn(BATCH, INPUTS, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (BATCH,), generator=generator)
    borders = [BATCH * place * (place + 1) // (count * (count + 1)) for place in range(count + 1)]
    return inputs, labels, slice(borders[rank], borders[rank + 1])


def differences(name: str, steps: int) -> list[float]:
    shared, whole, rows = both(name)
    apart, alone = DistributedDataParallel(network()), network()
    optimizers = [torch.optim.SGD(one.parameters(), **SGD) for one in (apart, alone, whole)]
    worst, rank, count = 0.0, dist.get_rank(), dist.get_world_size()
    for number in range(steps):
        inputs, labels, own = batch(number, rank, count)
        for optimizer in optimizers:
            optimizer.zero_grad()
        found = shared(apart(inputs[own]), labels[own])
        found.backward()
        right = whole(alone(inputs), labels)
        right.backward()
        for optimizer in optimizers:
            optimizer.step()
        shared.advance(), whole.advance()
        worst = max(worst, abs(found.item() / right.item() - 1))
    pairs = [(shared.head.weight, whole.head.weight[rows])]
    pairs += zip(apart.parameters(), alone.parameters(), strict=True)
    farthest = torch.stack([(one - other).abs().max() for one, other in pairs]).max().detach()
    found = torch.tensor([worst, float(farthest)], dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.tolist()


def main() -> None:
    steps, *names = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {name: differences(name, int(steps)) for name in names}
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()
    leave(0)


if __name__ == "__main__":
    main()
