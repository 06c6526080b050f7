"""What several processes do in tests of shared centers: each trains with its part.

Every process also trains the plain reference alone, on the whole batch. What comes out is the
largest difference of losses, relative, and of centers, for each of the variants named.
"""

import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import arcset
from arcset.centers import SampledClasses, plain_losses, sample_classes
from arcset.errors import InputError
from support.gloo import process_group
from support.laws import chunks_of
from support.variants import VARIANTS

DIM, CLASSES, INPUTS, BATCH = 6, 23, 5, 24
RATES = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}  # larger steps magnify rounding


def network():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(INPUTS, 12), nn.Tanh(), nn.Linear(12, DIM)).double()


def pair(mode, **options):
    """A loss whose centers are shared, and one that has them all; with the same centers."""
    torch.manual_seed(7)
    whole = arcset.build_loss(dim=DIM, classes=CLASSES, mode="plain", **options).double()
    for parameter in whole.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, dtype=torch.float64)
    shared = arcset.build_loss(dim=DIM, classes=CLASSES, mode=mode, group=True, **options).double()
    shard, each = shared.head.shard, shared.subcenters
    rows = slice(shard.first * each, shard.last * each)
    shared.head.weight.data.copy_(whole.head.weight.data[rows])
    if shared.head.bias is not None:
        shared.head.bias.data.copy_(whole.head.bias.data[shard.first : shard.last])
    return shared, whole, rows


def batch(step):
    """Inputs and labels of all, and this process's rows: an uneven share."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, INPUTS, generator=generator, dtype=torch.float64)
    y = torch.randint(CLASSES, (BATCH,), generator=generator)
    if step % 3 == 0:
        y = y % 5  # most processes have no target here
    rank, count = dist.get_rank(), dist.get_world_size()
    weights = torch.arange(1, count + 1).cumsum(0) * BATCH // sum(range(1, count + 1))
    borders = [0, *weights.tolist()]
    return x, y, slice(borders[rank], borders[rank + 1])


def train(steps, mode, fused, **options):
    """The largest differences over the steps of a training."""
    shared, whole, rows = pair(mode, **options)
    apart, alone = DistributedDataParallel(network()), network()
    optimizers = [torch.optim.SGD(one.parameters(), **RATES) for one in (apart, alone, whole)]
    if fused:
        shared.fuse_update("sgd", **RATES)
    optimizers.append(torch.optim.SGD(shared.parameters(), **RATES))
    worst = 0.0
    for step in range(steps):
        x, y, own = batch(step)
        for optimizer in optimizers:
            optimizer.zero_grad()
        with chunks_of(4):
            found = shared(apart(x[own]), y[own])
            found.backward()
        right = whole(alone(x), y)
        right.backward()
        for optimizer in optimizers:
            optimizer.step()
        for loss in (shared, whole):
            loss.advance()
        worst = max(worst, abs(found.item() / right.item() - 1))
    centers = [(shared.head.weight - whole.head.weight[rows]).abs().max()]
    centers += [
        (a - b).abs().max() for a, b in zip(apart.parameters(), alone.parameters(), strict=True)
    ]
    if shared.subcenters > 1:
        assert shared.head.usage.equal(
            whole.head.usage[shared.head.shard.first :][: len(shared.head.usage)]
        )
    centers.append((shared.centers - whole.centers).abs().max())
    return worst, max(one.item() for one in centers)


def same_gradients(shared, whole, rows, mine, theirs, own):
    """Those of the centers and of the embeddings, whose loss is a mean over all processes."""
    for one, other in (
        (shared.head.weight.grad, whole.head.weight.grad[rows]),
        (mine.grad / dist.get_world_size() if len(mine) else mine, theirs.grad[own]),
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def inputs():
    """Embeddings of all, (BATCH, DIM)."""
    generator = torch.Generator().manual_seed(3)
    return torch.randn(BATCH, DIM, generator=generator, dtype=torch.float64)


def sampled(name, rate=0.4, **options):
    """The same with some of the classes: the loss of those that all processes drew together.

    At low rates a process without a target may have drawn no class at all.
    """
    shared, whole, rows = pair("store", name=name, sample=rate, **options)
    shard, worst = shared.head.shard, 0.0
    for step in range(5):
        x, y, own = batch(step)
        embeddings = torch.tanh(
            x
            @ torch.randn(
                INPUTS, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64
            )
        )
        mine, theirs = embeddings[own].clone().requires_grad_(), embeddings.clone().requires_grad_()
        torch.manual_seed(100 * step + shard.rank)
        own_draw = sample_classes(shard.local_labels(y), shard.size, rate, weighted=True)
        drawn = own_draw.classes + shard.first
        counts = shard._numbers(len(drawn), drawn.device)
        classes, weights = (shard.gather_rows(side, counts) for side in (drawn, own_draw.weights))
        places = (classes == y[:, None]).int().argmax(dim=1)
        torch.manual_seed(100 * step + shard.rank)
        shared.zero_grad()
        value = shared(mine, y[own])
        value.backward()
        query = whole._batch(theirs, y)
        whole.zero_grad()
        right = plain_losses(whole.head, query, SampledClasses(classes, places, weights)).mean()
        right.backward()
        worst = max(worst, abs(value.item() / right.item() - 1))
        same_gradients(shared, whole, rows, mine, theirs, own)
        shared.advance(), whole.advance()
    return worst, 0.0


def refused():
    """A bad batch in one process ends all of them, with a sentence each."""
    loss, _, _ = pair("store", name="arcface")
    y = torch.tensor([0, CLASSES if dist.get_rank() == 0 else 1])
    try:
        loss(torch.ones(2, DIM, dtype=torch.float64), y)
    except InputError as error:
        return str(error)
    return ""


def ignored():
    """Samples that do not count: where there are several processes, all of the first one's."""
    shared, whole, _ = pair("store", name="arcface", ignore_index=-100)
    x, y, own = batch(1)
    labels = y.clone()
    if dist.get_rank() == 0:
        labels[own if dist.get_world_size() > 1 else slice(5)] = -100
    dist.broadcast(labels, 0)
    x = inputs()
    return abs(shared(x[own], labels[own]).item() / whole(x, labels).item() - 1), 0.0


def absent():
    """The first of several processes has nothing to say: an empty batch that no network has made,
    without a gradient and in another type."""
    shared, whole, rows = pair("store", name="adaface")
    x = inputs()
    y = torch.arange(BATCH) % CLASSES
    rank, count = dist.get_rank(), dist.get_world_size()
    borders = [0, *(BATCH * place // max(1, count - 1) for place in range(count)), BATCH]
    own = slice(borders[rank], borders[rank + 1]) if count > 1 else slice(None)
    mine, theirs = x[own].clone().requires_grad_(), x.clone().requires_grad_()
    given = mine if len(mine) else torch.zeros(0, DIM)
    value, right = shared(given, y[own]), whole(theirs, y)
    value.backward(), right.backward()
    same_gradients(shared, whole, rows, mine, theirs, own)
    return abs(value.item() / right.item() - 1), 0.0


def weighted():
    """With weights, and with the loss of every sample: each process sees those of its own."""
    shared, whole, rows = pair("store", name="arcface", ignore_index=-100)
    x = inputs()
    weights = torch.rand(BATCH, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    _, y, own = batch(1)
    y[3] = y[-2] = -100
    count, worst = dist.get_world_size(), 0.0
    for options in ({"weights": weights}, {"reduction": "none"}):
        mine, theirs = x[own].clone().requires_grad_(), x.clone().requires_grad_()
        part = {"weights": weights[own]} if "weights" in options else options
        found, right = shared(mine, y[own], **part), whole(theirs, y, **options)
        if "reduction" in options:
            torch.testing.assert_close(found, right[own])
            found, right = found.square().sum() * count, right.square().sum()
            found.backward()
        else:
            found.backward()
            worst = abs(found.item() / right.item() - 1)
        right.backward()
        same_gradients(shared, whole, rows, mine, theirs, own)
        shared.zero_grad(), whole.zero_grad()
    return worst, 0.0


def train_together(result, steps, names):
    with process_group():
        compare(result, steps, names)


def compare(result, steps, names):
    found = {}
    for name in names:
        for mode, fused in (("store", False), ("recompute", True)):
            found[f"{name} {mode}"] = train(steps, mode, fused, **VARIANTS[name])
    for name in ("arcface", "mvsoftmax", "intertopk"):
        found[f"{name} sampled"] = sampled(name)
        found[f"{name} hardly any"] = sampled(name, 1e-9)
    found["smoothed sampled"] = sampled("arcface", 0.3, label_smoothing=0.1, bias=True)
    found["ignored"] = ignored()
    found["absent"] = absent()
    found["weighted"] = weighted()
    found["refused"] = refused()
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    if dist.get_rank() == 0:
        result.write_text(json.dumps(every))
