"""The training loop, top to bottom.

arcset train mnist-sample --classes 0-4 --loss arcface --dim 2 --epochs 20 --out runs/arcface
arcset train --resume runs/arcface
"""

import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from arcset.data import (
    Selection,
    as_float,
    batch_count,
    epoch_seed,
    selection_for,
    selection_of,
    shuffled_batches,
    to_tensors,
)
from arcset.errors import InputError
from arcset.losses import Loss
from arcset.models import build_model, described, resolved
from arcset.runs import Run, RunConfig
from arcset.training.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from arcset.training.device import choose_device
from arcset.training.diagnosis import broken, check_health
from arcset.training.progress import Silent, Watcher
from arcset.training.schedule import learning_rate
from arcset.training.snapshots import Snapshots

__all__ = ["build_optimizer", "resume", "train"]

_PROBE = 64  # images that every epoch must embed in finite numbers before it is kept


def train(
    config: RunConfig,
    out: Path | str,
    *,
    device: str = "auto",
    force: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Train a new run in the folder `out`. Ctrl-C keeps the epochs that are done: see `resume`.

    Raises:
        OptionError: a name or value in the configuration does not fit.
        RunError: the folder is in the way.
        TrainingError: the loss is no longer finite; the last good epoch is kept.
    """
    selection = selection_for(config)
    config = described(config, selection.train)
    network, loss = build_model(config)
    place = choose_device(device)
    run = Run.create(out, resolved(config, loss), force=force)
    if selection.split is not None:  # the file may move or change; the run keeps what it saw
        selection.split.save(run.split_file)
    return _fit(run, selection, network.to(place), loss.to(place), place, watcher or Silent())


def resume(out: Path | str, *, device: str = "auto", watcher: Watcher | None = None) -> Run:
    """Continue the run in `out` after its last complete epoch; a finished run stays as it is."""
    run = Run.open(out)
    selection = selection_of(run)
    network, loss = build_model(run.config)
    place = choose_device(device)
    return _fit(run, selection, network.to(place), loss.to(place), place, watcher or Silent())


def _fit(
    run: Run,
    selection: Selection,
    network: nn.Module,
    loss: Loss,
    device: torch.device,
    watcher: Watcher,
) -> Run:
    config = run.config
    images, labels = to_tensors(selection.train, device)  # (N, C, H, W) uint8, (N,)
    per_epoch = batch_count(len(labels), config.batch)
    steps = per_epoch * config.epochs
    optimizer = build_optimizer(config, network, loss)
    optimizers = [optimizer]
    if loss.update is not None:  # the centers' own, which works during the backward pass
        loss.update.configure(momentum=config.momentum, weight_decay=config.weight_decay)
        optimizers.append(loss.update)
    loss.set_class_sizes(torch.bincount(labels, minlength=loss.classes))
    snapshots = Snapshots(selection, config.snapshot, device)

    checkpoints = run.path / "checkpoint"
    last = latest_checkpoint(checkpoints)
    done = load_checkpoint(last, network, loss, optimizer) if last else 0
    # A run killed between its metrics and its checkpoint repeats that epoch: no line twice.
    history = [line for line in run.metrics() if line["epoch"] <= done]
    run.save_samples(snapshots.samples())
    if done == 0:
        run.save_embeddings(0, snapshots.take(network, loss))

    watcher.started(run.path.name, done * per_epoch, steps)
    for epoch in range(done + 1, config.epochs + 1):
        network.train()
        loss.train()
        started = time.perf_counter()
        total, step = torch.zeros((), device=device), (epoch - 1) * per_epoch
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(epoch_seed(config.seed, epoch))  # for layers that draw, as dropout
            batches = shuffled_batches(
                len(labels), config.batch, seed=config.seed, epoch=epoch, device=device
            )
            for index in batches:
                rate = learning_rate(step, steps, config.learning_rate, config.schedule)
                for each in optimizers:
                    for group in each.param_groups:
                        group["lr"] = rate
                embeddings = network(as_float(images.index_select(0, index)))  # (B, D)
                try:
                    value = loss(embeddings, labels.index_select(0, index))
                except InputError as error:
                    raise broken(str(error), network, images[index], epoch, rate) from error
                if not math.isfinite(value.item()):
                    what = f"the loss is {value.item()}"
                    raise broken(what, network, images[index], epoch, rate)
                optimizer.zero_grad(set_to_none=True)
                value.backward()
                optimizer.step()
                loss.advance()
                step += 1
                total += value.detach() * len(index)
                watcher.stepped(step, value.item())
        seconds = time.perf_counter() - started

        network.eval()
        loss.eval()
        check_health(network, images[:_PROBE], epoch, rate)
        kept = snapshots.take(network, loss)
        line: dict[str, Any] = {
            "epoch": epoch,
            "loss": total.item() / len(labels),
            **_accuracies(loss, kept, snapshots.labels),
            "learning_rate": rate,
            "seconds": round(seconds, 3),
            "images_per_second": round(len(labels) / seconds, 1),
        }
        history.append(line)
        run.save_embeddings(epoch, kept)
        run.write_metrics(history)
        run.save_model(network.state_dict(), loss.state_dict())
        save_checkpoint(checkpoints, epoch, network, loss, optimizer)
        watcher.epoch_ended(line)
    return run


def build_optimizer(config: RunConfig, network: nn.Module, loss: Loss) -> Optimizer:
    """One optimizer over network and loss; weight decay on matrices and kernels only."""
    parameters = [*network.parameters(), *loss.parameters()]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    if config.optimizer == "adamw":
        return AdamW(groups, lr=config.learning_rate)
    return SGD(groups, lr=config.learning_rate, momentum=config.momentum)


def _accuracies(loss: Loss, kept: dict[str, Tensor], labels: dict[str, Tensor]) -> dict[str, float]:
    """Share of the kept training and test samples that the classifier names rightly."""
    if not loss.classifies:
        return {}
    with torch.no_grad():
        return {
            f"{part}_accuracy": (loss.logits(kept[part]).argmax(dim=1) == labels[part]).sum().item()
            / len(labels[part])
            for part in ("train", "test")
            if part in kept
        }
