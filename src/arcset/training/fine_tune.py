"""All that `--from RUN` needs: begin with the weights and centers of a trained run.

arcset train faces/ --from runs/faces --out runs/more-faces

Before training: which identities that run knew (`load_earlier`), what does not fit (`check_start`),
weights and centers (`start_from_earlier`), layers that stay as they are (`freeze`). Afterwards: how
well its identities are still recognized (`measure_forgetting`).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from arcset.data import Dataset, Selection, Split
from arcset.data.mapping import ClassMapping
from arcset.errors import OptionError
from arcset.evaluation import paired, retrieval
from arcset.losses import Loss
from arcset.losses.center import Center
from arcset.losses.transfer import Head, regrow
from arcset.networks.layers import network_layers
from arcset.numerics import unit_rows
from arcset.runs import Run, RunConfig
from arcset.runs.data import EarlierIdentities, selection_for, selection_of
from arcset.runs.model import Forgetting, TrainedRun, embed, load_weights
from arcset.training.batches import TrainingBatches

_BATCH = 1024  # images that are in memory at a time


def load_earlier(config: RunConfig) -> EarlierIdentities | None:
    """The identities that the run to start from knew and held out, under their names of now.

    None where the configuration names no run. Raises `RunError` where it is not there.
    """
    if config.start is None:
        return None
    old = Run.open(config.start)
    mapping = ClassMapping() if config.mapping is None else ClassMapping.load(config.mapping)
    split = Split.load(old.split_file) if old.split_file.exists() else None
    parts = [old.config.class_names or (), *((split.validation, split.test) if split else ())]
    now = [frozenset(name for name in mapping.of(names) if name is not None) for names in parts]
    return EarlierIdentities(str(old.path), *now)


def choose_selection(
    config: RunConfig, existing: Run | None = None, *, dataset: Dataset | None = None
) -> Selection:
    """The images to train on and to hold out; `dataset` is the data where that has been read.

    existing: the run where it is there already. Once it has a checkpoint, it needs the run that it
    started from no more.
    """
    if existing is not None and existing.has_checkpoint and config.start is not None:
        return selection_of(existing, dataset=dataset)
    return selection_for(config, dataset=dataset, earlier=load_earlier(config))


def check_start(config: RunConfig, network: nn.Module, out: Path | str) -> None:
    """Refuse, with `OptionError`, settings that do not fit the run to start from.

    config: with the settings of the data. out: the new run's folder. Raises `RunError` where there
    is no trained run.
    """
    if config.start is None:
        if config.freeze:
            raise OptionError(
                f"freeze={config.freeze} would keep random weights: name a run to start from, "
                "--from RUN"
            )
        return
    old = Run.open(config.start)
    if Path(out).resolve() == old.path.resolve():
        raise OptionError(f"{out} is the run to start from: name another folder for the new one")
    for name in ("network", "dim"):
        value, old_value = getattr(config, name), getattr(old.config, name)
        if value != old_value:
            raise OptionError(
                f"{old.path} has {name} {old_value}, which a run that starts from it keeps, and "
                f"not {name} {value}: leave that out, or train anew"
            )
    if config.shape != old.config.shape:
        size, old_size = (
            "×".join(str(side) for side in shape or ())
            for shape in (config.shape, old.config.shape)
        )
        raise OptionError(f"{old.path} takes samples of {old_size}, and the data has {size}")
    freeze(network, config.freeze)
    old.load_model()  # raises where it was never trained


def start_from_earlier(run: Run, network: nn.Module, loss: Loss, batches: TrainingBatches) -> None:
    """Give a fresh network and loss what the run that `run` starts from has learned.

    The network gets the old weights. Identities that the old run knew get their old centers, bit
    for bit; of those merged, the mean of the old directions; all others the mean of the embeddings
    of their images: see `begin_centers`. Nothing is drawn from the random state, and the outcome is
    the same each time.
    """
    old = Run.open(str(run.config.start))
    old_loss = load_weights(old, network)
    sources: dict[str, list[int]] = {}
    for row, name in enumerate(_new_names(run, old)):
        if name is not None:
            sources.setdefault(name, []).append(row)
    begin_centers(
        loss,
        old_loss,
        [sources.get(name, []) for name in run.config.class_names or ()],
        network,
        batches,
        is_same_loss=run.config.loss == old.config.loss,
    )


@torch.no_grad()
def begin_centers(
    loss: Loss,
    old: Loss,
    sources: Sequence[Sequence[int]],
    network: nn.Module,
    batches: TrainingBatches,
    *,
    is_same_loss: bool,
) -> None:
    """Set the centers of `loss` from a trained one, `old`, and from the samples.

    sources: of every class, its classes in `old`; none for a new one, several for one merged.
    network: trained; it embeds the samples. is_same_loss: what it has counted on the way carries
    over, too.

    Known classes begin as `regrow` says. A new one begins at the mean of its samples' embeddings,
    of unit length for a cosine loss; its length is the median of the old centers', its bias 0.
    Turned and mirrored classes are new: no run keeps their centers. Of shared centers every process
    begins its own.
    """
    head = Head.of(loss)
    if head is None:
        return
    new, length = regrow(loss, old, sources)
    head.put(new, *_class_means(network, batches, new, unit=loss.normalized), length)
    if isinstance(loss, Center):
        _begin_means(loss, old, sources, network, batches)
    if is_same_loss:
        state = loss.state_dict()
        for name, value in old.state_dict().items():
            if value.ndim == 0 and name in state and not name.endswith("step"):
                state[name].copy_(value)


def _class_means(
    network: nn.Module, batches: TrainingBatches, labels: Tensor, *, unit: bool
) -> tuple[Tensor, Tensor]:
    """The mean embedding (n, D) of each of the classes `labels` (n,), and its images' number (n,).

    The embeddings of all training images, as they are or, with `unit`, of length 1, by the network
    in evaluation mode; of turned classes those of turned images. Sums are in float64.
    """
    classes, samples = batches.classes, batches.samples
    row_of = torch.full((classes * batches.transforms.count,), -1)
    row_of[labels] = torch.arange(len(labels))
    sample_labels, total = samples.labels.cpu(), None  # (N,)
    counts = torch.zeros(len(labels), dtype=torch.int64)
    for turned in range(batches.transforms.count):
        rows = row_of[sample_labels + turned * classes]  # (N,), −1 for classes not asked for
        for index in filter(len, (rows >= 0).nonzero().squeeze(1).split(_BATCH)):
            images = samples.take(index.to(samples.device))
            if turned:
                which = torch.full((len(index),), turned, device=samples.device)
                images = batches.transforms.apply(images, which)
            embeddings = embed(network, images).cpu().double()  # (b, D)
            if unit:
                embeddings = unit_rows(embeddings)[0]
            if total is None:
                total = embeddings.new_zeros(len(labels), embeddings.shape[1])
            total.index_add_(0, rows[index], embeddings)
            counts += torch.bincount(rows[index], minlength=len(labels))
    if total is None:
        return torch.zeros(len(labels), 1, dtype=torch.float64), counts
    return total / counts.clamp(min=1)[:, None], counts


def _begin_means(
    loss: Center,
    old: Loss,
    sources: Sequence[Sequence[int]],
    network: nn.Module,
    batches: TrainingBatches,
) -> None:
    """The means that center loss pulls to: the old, or those of the embeddings as they are."""
    known: dict[int, Tensor] = {}
    if isinstance(old, Center):
        known = {
            label: old.means[list(rows)].mean(dim=0) for label, rows in enumerate(sources) if rows
        }
    new = torch.tensor([label for label in range(loss.classes) if label not in known]).long()
    if len(new):
        means, _ = _class_means(network, batches, new, unit=False)
        loss.means[new.to(loss.means.device)] = means.to(loss.means)
    for label, mean in known.items():
        loss.means[label] = mean.to(loss.means)


def freeze(network: nn.Module, count: int) -> list[nn.Module]:
    """Freeze the first `count` layers that have weights, and whatever lies before and between them.

    They get no gradient and are put into evaluation mode. Returns them, for whoever calls
    `network.train()` to do the latter again: batch norms keep their statistics.

    Counted from the input on: a convolution, a batch norm and an activation with weights are one
    layer each, and so is a whole residual block; see `network_layers`. At least one layer remains,
    or `OptionError` is raised.

        >>> network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> _ = freeze(network, 1)
        >>> [parameter.requires_grad for parameter in network.parameters()]
        [False, False, True, True]
        >>> freeze(network, 2)
        Traceback (most recent call last):
        arcset.errors.OptionError: freeze=2 leaves nothing to train: the network has 2 layers ...
    """
    layers = network_layers(network)
    with_weights = [
        number for number, layer in enumerate(layers) if next(layer.parameters(), None) is not None
    ]
    if count and count >= len(with_weights):
        number = f"{len(with_weights)} layers" if len(with_weights) != 1 else "one layer"
        raise OptionError(
            f"freeze={count} leaves nothing to train: the network has {number} with weights that "
            f"follow each other; freeze at most {max(0, len(with_weights) - 1)}"
        )
    frozen = layers[: with_weights[count - 1] + 1] if count else []
    for layer in frozen:
        layer.requires_grad_(False).eval()
    return frozen


def measure_forgetting(trained: TrainedRun, old: Run | None = None) -> list[Forgetting]:
    """What a run has kept of the one that it started from, `old` (by default `config.start`).

    Every test image of the old identities searches all others of them, by cosine; so do those of
    the new ones: once as the old network embeds them and once as the new does. Differences are
    paired over identities. A group with too few images is left out.

    Raises `OptionError` for a run that started from none, `RunError` where the old one is gone.
    """
    if old is None and trained.config.start is None:
        raise OptionError(f"{trained.path} did not start from another run")
    old = old or Run.open(str(trained.config.start))
    test = trained.selection.test
    if test is None:
        return []
    known = set(_new_names(trained, old))
    is_old = np.array([name in known for name in test.class_names])[test.labels]  # (N,)
    earlier = TrainedRun.load(old, device=str(trained.device), selection=trained.selection)
    before, after = (model.embed_part("test").embeddings for model in (earlier, trained))
    rows = []
    for group, chosen in (("old", is_old), ("new", ~is_old)):
        labels = test.labels[chosen]
        counts = np.unique(labels, return_counts=True)[1]
        if len(counts) < 2 or counts.max() < 2:
            continue
        results = [
            retrieval(embeddings[chosen], labels, ks=(1,), intervals=True)
            for embeddings in (before, after)
        ]
        old_recall, new_recall = (result.recall_at[1] for result in results)
        change = paired(results[1], results[0], "recall_at[1]")
        rows.append(Forgetting(group, len(counts), len(labels), old_recall, new_recall, change))
    return rows


def _new_names(run: Run, old: Run) -> list[str | None]:
    """What the identities that `old` was trained on are called in `run`; None for those removed."""
    has_mapping = run.config.mapping is not None
    mapping = ClassMapping.load(run.mapping_file) if has_mapping else ClassMapping()
    return mapping.of(old.config.class_names or ())
