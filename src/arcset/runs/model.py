"""Network and loss together: from a configuration, and back from a run folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from arcset.data import ImageSet, Selection, as_float, to_tensors
from arcset.data.embeddings import EmbeddingSet
from arcset.data.rotated_classes import class_transforms
from arcset.devices import choose_device
from arcset.errors import OptionError, RunError
from arcset.evaluation import Assessment, Difference
from arcset.files import finite
from arcset.losses import Loss, build_loss, loss_options
from arcset.networks import build_network
from arcset.networks.registry import NETWORKS, network_module
from arcset.runs import Run, RunConfig
from arcset.runs.config import GIVEN
from arcset.runs.data import selection_of

# Most images, and most pixels, per forward pass: more fall out of the cache and gain nothing.
_IMAGES, _PIXELS = 512, 2**19


def add_data_settings(config: RunConfig, selection: Selection) -> RunConfig:
    """The configuration with what the data says: shape, class names, and how files are read.

    And with the module that another process has to import before it knows the network.
    """
    return config.replace(
        network_module=network_module(config.network),
        shape=selection.train.shape,
        class_names=selection.train.class_names,
        fit=selection.fit,
        invert=selection.invert,
    )


def build_model(
    config: RunConfig,
    *,
    training: bool = False,
    steps: int = 0,
    shared: bool = False,
    network: nn.Module | None = None,
) -> tuple[nn.Module, Loss]:
    """A fresh network and loss, by a configuration with data settings; equal seeds, equal weights.

    For training, the loss has centers for turned or mirrored images, too, where these are classes
    of their own; those of the images as they are come first. The margin grows over its share of
    the `steps` of the whole run, unless the options say otherwise. With `shared`, the processes of
    torch's default group hold a slice of the centers each. `network` is the module of a
    configuration whose network is given in Python: it is used itself, with the weights that it
    has. The random state outside is left as it was.
    """
    if config.shape is None or config.class_names is None:
        raise RunError("the configuration does not say which images and classes it is for")
    if "group" in config.options:
        raise OptionError("group is for those who call build_loss: set share_centers=true")
    known = loss_options(config.loss, **config.options)
    if config.share_centers and "group" not in known:
        raise OptionError(f"share_centers: {config.loss} has no class centers to share out")
    options = dict(config.options)
    if "warmup" in known and steps:
        options = {"warmup": round(config.margin_warm_up * steps), **options}
    classes = _class_count(config) if training else len(config.class_names)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.seed)  # devices draw nothing here
        network = _build_network(config, network)
        return network, _build_loss(config, classes, options, shared=shared)


def _class_count(config: RunConfig) -> int:
    """Classes in training, with those of turned and mirrored images."""
    assert config.shape is not None
    assert config.class_names is not None
    transforms = class_transforms(config.new_classes)
    if transforms.count > 1:
        if len(config.shape) != 3:
            raise OptionError(
                f"new_classes={config.new_classes!r} turns or mirrors images, and the data are "
                "vectors: leave it out"
            )
        transforms.check(config.shape)
    return len(config.class_names) * transforms.count


def _build_network(config: RunConfig, network: nn.Module | None) -> nn.Module:
    assert config.shape is not None
    network = _given_network(config, network) or build_network(
        config.network, config.dim, config.shape, dropout=config.dropout
    )
    # Convolutions run about 1.5 times as fast this way on CPUs, and faster on GPUs too.
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _build_loss(
    config: RunConfig, classes: int, options: dict[str, Any], *, shared: bool = False
) -> Loss:
    given: dict[str, Any] = {"scale": config.scale, "margin": config.margin, **options}
    return build_loss(config.loss, config.dim, classes, group=True if shared else None, **given)


def _given_network(config: RunConfig, network: nn.Module | None) -> nn.Module | None:
    """The module that was handed over, if the configuration is of such a one."""
    if network is not None and config.network != GIVEN:
        raise OptionError(f"the network is {config.network}: leave network=… out")
    if config.network == GIVEN and network is None:
        raise OptionError("the network was given in Python: hand the module over as network=…")
    if config.network not in NETWORKS and config.network_module is not None:
        raise OptionError(
            f"the network {config.network!r} comes from the module {config.network_module}, which "
            f"is not imported: --import {config.network_module}, or import it in Python first"
        )
    return network


def add_loss_settings(config: RunConfig, loss: Loss) -> RunConfig:
    """The configuration with the scale and margin that were chosen for the loss written into it."""
    settings = loss.settings()
    direct = {key: settings.pop(key) for key in ("scale", "margin") if key in settings}
    return config.replace(**direct, options={**config.options, **settings})


def load_model(run: Run, *, network: nn.Module | None = None) -> tuple[nn.Module, Loss]:
    """The trained network, in evaluation mode, and its loss, whose weights stay on the disk until
    they are used. `network` is as of `load_network`."""
    network = _empty_network(run, network)
    return network.eval(), load_weights(run, network)


def load_network(run: Run, *, network: nn.Module | None = None) -> nn.Module:
    """The trained network, in evaluation mode, without the loss.

    `network` is the module of a run whose network was given in Python; it gets the run's weights.
    """
    network = _empty_network(run, network)
    with _explaining_misfits(run):
        network.load_state_dict(run.load_model()[0])
    return network.eval()


def _empty_network(run: Run, network: nn.Module | None) -> nn.Module:
    if run.config.network == GIVEN and network is None:
        raise OptionError(
            f"the network of {run.path} was given in Python: open the run there with the module, "
            f"as Recognizer.load({str(run.path)!r}, network=…) or network=… of arcset.evaluate, "
            "arcset.train(resume=…) and arcset.recognition.export"
        )
    if run.config.shape is None:
        raise RunError(f"{run.path} does not say which images and classes it is for")
    with torch.random.fork_rng(devices=[]):
        return _build_network(run.config, network)


def load_weights(run: Run, network: nn.Module) -> Loss:
    """Load a run's weights into `network`; returns its loss, whose weights stay on the disk until
    they are used. Raises `RunError` where they are missing or do not fit."""
    network_state, loss_state = run.load_model()
    with torch.device("meta"):  # no second copy of the centers in memory
        loss = _build_loss(run.config, len(run.config.class_names or ()), run.config.options)
    built = loss.state_dict()
    with _explaining_misfits(run):
        network.load_state_dict(network_state)
        fitting = {
            name: tensor.to(built[name].dtype) if name in built else tensor
            for name, tensor in loss_state.items()
        }
        loss.load_state_dict(fitting, assign=True)
    return loss.eval()


@contextmanager
def _explaining_misfits(run: Run) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        lines = str(error).splitlines()  # torch's heading, then one line for each that does not fit
        first = lines[min(1, len(lines) - 1)].strip()
        raise RunError(f"the weights in {run.path} do not fit its configuration: {first}") from None


@dataclass(frozen=True)
class Forgetting:
    """Recall@1 of some identities by the run before and by the one that started from it.

    group: "old" identities, which the run before knew (less than before is forgotten), or "new"
    ones. change: how much better it is now, with its 95 % interval over identities.
    """

    group: str
    identities: int
    images: int
    before: float
    after: float
    change: Difference

    def json(self) -> dict[str, Any]:
        """As one object; what is not known is None."""
        content = {
            **vars(self),
            "measure": "recall@1",
            "change": self.change.gain,
            "interval": list(self.change.interval),
        }
        return dict(finite(content))

    def row(self) -> list[str]:
        """Measure, value, interval and what it says, as a table of measures has them."""
        return [
            f"recall@1 of {self.identities:,} {self.group} identities",
            f"{100 * self.after:.2f} %",
            "–",
            f"{100 * self.before:.2f} % before: {self.change.sentence()}",
        ]


class TrainedRun(Run):
    """A run whose weights are in memory: what evaluation, model card and report work on.

    Training returns one, and `load` makes one of a folder. Weights are read once, data once and
    only if asked for, and the images of a part are embedded once.

    network: in evaluation mode on `device`, with the weights that the run keeps. loss: the same.
    assessment: on the identities held out, as training measured it at its end; None without.
    missing: what was not measured then, and why. forgetting: what was kept of the run before.
    """

    assessment: Assessment | None = None

    def __init__(
        self,
        run: Run,
        network: nn.Module,
        loss: Loss,
        device: torch.device,
        selection: Selection | None = None,
    ) -> None:
        super().__init__(run.path, run.config)
        self.network, self.loss, self.device = network, loss, device
        self._selection = selection
        self.missing: dict[str, str] = {}
        self.forgetting: list[Forgetting] = []
        self._embeddings: dict[str, EmbeddingSet] = {}

    @classmethod
    def load(
        cls,
        run: Run | Path | str,
        *,
        device: str = "auto",
        selection: Selection | None = None,
        network: nn.Module | None = None,
    ) -> "TrainedRun":
        """Read a run's weights; `selection` is its data, where that has been read already.

        `network` is the module of a run whose network was given in Python.
        """
        run = run if isinstance(run, Run) else Run.open(run)
        network, loss = load_model(run, network=network)
        chosen = choose_device(device)
        return cls(run, network.to(chosen), loss.to(chosen), chosen, selection)

    @property
    def selection(self) -> Selection:
        """The images that the run was trained with, and those kept from it."""
        if self._selection is None:
            self._selection = selection_of(self)
        return self._selection

    def embed_part(self, name: str) -> EmbeddingSet:
        """Embeddings of the selection's part `name`, as test or unseen, computed once."""
        if name not in self._embeddings:
            self._embeddings[name] = self.embed_images(getattr(self.selection, name))
        return self._embeddings[name]

    def embed_images(self, images: ImageSet) -> EmbeddingSet:
        """Embeddings of all images, with the name of each one's class, and the classes trained."""
        tensors, labels = to_tensors(images, self.device)
        rows = embed(self.network, tensors).cpu().numpy()
        names: list[str] = np.array(images.class_names)[labels.cpu().numpy()].tolist()
        known = self.config.class_names or ()
        return EmbeddingSet.of(rows, names, images.paths, trained_on=known)


@torch.no_grad()
def embed(network: nn.Module, images: Tensor) -> Tensor:
    """Embeddings (N, D) of samples (N, C, H, W) or (N, F), in evaluation mode for so long."""
    training = network.training
    network.eval()
    count = max(1, min(_IMAGES, _PIXELS // images[0, :1].numel()))
    dtype = next(network.parameters(), torch.empty(0)).dtype
    parts = [network(_channels_last(as_float(chunk)).to(dtype)) for chunk in images.split(count)]
    network.train(training)
    return torch.cat(parts)


def _channels_last(images: Tensor) -> Tensor:
    if images.ndim != 4:
        return images
    return images.contiguous(memory_format=torch.channels_last)
