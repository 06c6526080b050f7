"""What a call from Python hands over: data of any kind, modules, settings, runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.data import Dataset as TorchDataset

from arcset.data import Dataset, Selection, Source
from arcset.data.mapping import ClassMapping
from arcset.data.sources.arrays import dataset_of_arrays, hold_back_tests
from arcset.data.sources.load import load_source
from arcset.data.torch_dataset import from_torch, is_repeatable
from arcset.errors import InputError, OptionError
from arcset.files import one_line
from arcset.runs import Run, RunConfig
from arcset.runs.assess import shape_words
from arcset.runs.config import GIVEN
from arcset.runs.settings import Layer, Settings, list_layers, parse_setting
from arcset.training.watchers import Watcher

__all__ = ["Data", "embedding_size", "layers_of", "path_of", "read_given"]

#: What can be trained on: a name or path as on the command line, any source or dataset, a torch
#: Dataset of (image, label), or arrays (images, labels).
Data: TypeAlias = str | Path | Source | Dataset | TorchDataset[Any] | tuple[Any, Any]


def layers_of(
    data: Data | None,
    given: Mapping[str, Any],
    *,
    recipe: str | None,
    config: Path | str | None,
    start: Run | Path | str | None,
    begun: Run | None = None,
) -> list[Layer]:
    """The layers of settings that arguments come to: values, or texts as on the command line."""
    given = {key: _value_of(key, value) for key, value in given.items()}
    if data is not None:
        path = str(data.resolve()) if isinstance(data, Path) else data
        given["data"] = path if isinstance(path, str) else GIVEN
    if start is not None and begun is not None:
        given["start"] = str(path_of(start).resolve())
    goes_on = begun is not None and start is not None
    return list_layers(
        given,
        recipe=recipe,
        file=None if config is None else Path(config),
        start=None if start is None or goes_on else Run.open(path_of(start)),
        continued=begun if goes_on else None,
    )


def _value_of(key: str, value: Any) -> Any:
    """A setting as `RunConfig` has it: `size` may be one number, and paths are text there."""
    if key == "size" and isinstance(value, int):
        return [value, value]
    if key in ("size", "hold_out", "augment") and isinstance(value, str):
        return parse_setting(key, value)
    return str(value) if isinstance(value, Path) else value


def read_given(
    data: Data | None, config: RunConfig, watcher: Watcher, run: Run | None = None
) -> Dataset:
    """Data that was given in Python, its identities mapped: by the run's own copy of the mapping
    where there is a run, whose shape pictures are then brought to."""
    size: Any = config.size
    channels: int | None = config.channels
    if config.shape is not None and len(config.shape) == 3:
        channels, *size = config.shape
    reading: dict[str, Any] = {"size": size, "channels": channels, "fit": config.fit}
    if isinstance(data, Dataset):
        dataset = data
    elif isinstance(data, Source):
        dataset = load_source(data, invert=config.invert, watch=watcher.reading, **reading)
    elif isinstance(data, tuple) and len(data) == 2:
        dataset = dataset_of_arrays(*data)
    elif isinstance(data, TorchDataset):
        dataset = hold_back_tests(from_torch(data, **reading))
        if not is_repeatable(data):
            watcher.noted(
                "note: dataset[i] is another image each time it is read. It is read once, so every "
                "epoch sees the same images (augment=… changes them), and a continued run, which "
                "reads them again, is not the same to the last bit"
            )
    else:
        raise InputError(
            "data must be a name, a path, a Source, a torch Dataset of (image, label) or arrays "
            f"(images, labels), not {type(data).__name__}"
        )
    if config.mapping is None:
        return dataset
    return ClassMapping.load(config.mapping if run is None else run.mapping_file).apply(dataset)


def embedding_size(module: nn.Module, selection: Selection, settings: Settings) -> int:
    """The dimension of the embeddings that a module makes of the data, found by trying."""
    shape = selection.train.shape
    weight = next(module.parameters(), torch.empty(0))
    was_training = module.training
    try:
        with torch.no_grad():
            rows = module.eval()(torch.zeros(2, *shape, dtype=weight.dtype, device=weight.device))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"the network does not take {shape_words(shape)}: {one_line(error)}"
        ) from error
    finally:
        module.train(was_training)
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2 or len(rows) != 2:
        shown = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
        raise InputError(f"the network gives {shown} for two images, and embeddings are (2, D)")
    if settings.is_explicit("dim") and settings.config.dim != rows.shape[1]:
        raise OptionError(
            f"dim={settings.config.dim}, and the network gives {rows.shape[1]}: leave dim out"
        )
    return int(rows.shape[1])


def path_of(run: Run | Path | str) -> Path:
    """The folder of a run, or the file, that was named or handed over."""
    return run.path if isinstance(run, Run) else Path(run)
