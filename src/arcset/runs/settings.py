"""Where the settings of a run come from: an ordered list of layers, folded once.

    defaults               what `RunConfig` says
    what suits the data    for a user's own data, by its size and number of identities
    run                    the run that training starts from, or the one that goes on
    recipe                 settings that were tried on a dataset
    file                   a TOML file, such as another run's config.toml
    options                of the command line, --set among them, or arguments in Python

A later layer replaces an earlier one, setting by setting. Three rules go beyond that: see
`_without_replaced` and `Settings.suited_to`.

    settings = resolve_settings(list_layers({"data": "faces/", "epochs": 20}, recipe="orl"))
    dataset = dataset_of(settings.config)
    settings = settings.suited_to(dataset)
    settings.config, settings.origin["epochs"]
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from arcset.data import DATASETS, Dataset
from arcset.data.image import parse_size
from arcset.data.split import count_held_out
from arcset.errors import OptionError
from arcset.losses import loss_options
from arcset.registry import did_you_mean, unknown_name
from arcset.runs.config import RunConfig, read_settings, unknown_setting
from arcset.runs.folder import Run

DEFAULTS, SUITED, OPTIONS = "defaults", "what suits the data", "options"

#: Settings of training that may stand among the options of a loss, as each loss has its own best.
TRAINED = ("learning_rate", "weight_decay", "margin_warm_up", "dropout")

_FILLED_IN = {"shape", "class_names", "network_module"}  # from the data and the network
_TUNED = ("scale", "margin", "options")  # chosen for one loss
_IDENTITIES = ("classes", "split", "hold_out")  # each says which identities are known
_SLOWER = 5  # times: the learning rate of a run that starts from another, which knows most already
_SHORTER = 4  # times: its epochs

_RECIPES = resources.files("arcset.runs") / "recipes"  # a TOML file each
_OF_ITS_DATA = ("hold_out", "train_on")  # settings of a recipe that make no sense on other data
# What was tuned on small drawn characters, and does not carry over to other images.
_OF_CHARACTERS = (*_OF_ITS_DATA, "new_classes", "augment", "epochs", "scale", "margin")
_SMALL = 48  # pixels: images up to this side are treated as characters are
_LEAST_GLYPH, _LEAST_FACE = 8, 32  # pixels: the smallest sides that the recipes' networks take
_HELD_OUT = 0.1, 0.2  # share of the identities, for validation and for testing each: at least, most
_FEW_HELD_OUT = 8  # identities of each part, if that is no more than a fifth
_LEAST = 20  # identities with several images, below which none is held out
_STEPS = 3_000  # that small data gets, whatever its number of images


@dataclass(frozen=True)
class Layer:
    """Settings from one source.

    name, detail: the source, as "recipe" and "orl". values: by the names of `RunConfig`; None takes
    away what earlier layers say. A loss may carry options in its text, as "softmax:bias=false".
    explicit: whether the user asked for these values in this very command, so that no rule drops
    them; other names than those of `RunConfig` are then options of the loss. tuned: what does not
    count for another loss than the layer's own.
    """

    name: str
    values: Mapping[str, Any]
    detail: str = ""
    explicit: bool = False
    tuned: tuple[str, ...] = _TUNED

    def __str__(self) -> str:
        return f"{self.name} {self.detail}".rstrip()


@dataclass(frozen=True)
class Settings:
    """A configuration, and where each of its values comes from.

    origin: the layer of each setting, and of each option of the loss as "options.NAME". notes: what
    is ignored, in sentences. layers: what it was resolved from.
    """

    config: RunConfig
    origin: dict[str, str]
    notes: list[str]
    layers: list[Layer]

    def is_explicit(self, name: str) -> bool:
        """Whether the user gave a setting in this very command or call."""
        return any(layer.explicit and name in layer.values for layer in self.layers)

    def suited_to(self, dataset: Dataset) -> "Settings":
        """The same with what suits the user's data beneath all other layers.

        A run to start from, and the file of a trained run, describe a whole training: nothing is
        added to them. So does a recipe, except for the identities to hold out.
        """
        if self.config.start is not None or self.config.class_names is not None:
            return self
        values = suitable_settings(dataset)
        if any(layer.name == "recipe" for layer in self.layers):
            values = {key: value for key, value in values.items() if key == "hold_out"}
        return resolve_settings([Layer(SUITED, values), *self.layers])

    def rows(self) -> list[tuple[str, Any, str]]:
        """Name, value and layer of every setting that a user may choose."""
        chosen = self.config.model_dump(exclude={"options", *_FILLED_IN})
        chosen |= {f"options.{name}": value for name, value in self.config.options.items()}
        return [(name, value, self.origin.get(name, DEFAULTS)) for name, value in chosen.items()]


def list_layers(
    options: Mapping[str, Any],
    *,
    recipe: str | None = None,
    file: Path | None = None,
    start: Run | None = None,
    continued: Run | None = None,
) -> list[Layer]:
    """The layers of a run, the first to count least.

    options: settings by name. start: the run to start from. continued: instead of it, a run that
    has been started and goes on.
    """
    saved = None if file is None else _file_layer(file)
    data = options.get("data") or (saved and saved.values.get("data")) or ""
    layers = []
    if continued is not None:
        values = continued.config.model_dump(exclude_none=True, exclude={"shape", "class_names"})
        layers.append(Layer("run", values, str(continued.path)))
    elif start is not None:
        values = inherited_settings(start, _absolute(str(data)))
        options = {**options, "start": values["start"]}
        layers.append(Layer("run", values, str(start.path), tuned=(*_TUNED, "margin_warm_up")))
    if recipe is not None:
        layers.append(Layer("recipe", recipe_settings(recipe, _absolute(str(data))), recipe))
    if saved is not None:
        layers.append(saved)
    return [*layers, Layer(OPTIONS, options, explicit=True)]


def resolve_settings(layers: Sequence[Layer]) -> Settings:
    """Fold the layers into one configuration.

    Raises `OptionError` for a name that is neither a setting nor an option of the loss, and for a
    value that does not fit.
    """
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    origin: dict[str, str] = {}
    spread = [_spread(layer) for layer in layers]
    for layer in _without_replaced(spread):
        for key, value in layer.values.items():
            if key != "options":
                values[key], origin[key] = value, str(layer)
        for key, value in layer.values.get("options", {}).items():
            options[key], origin[f"options.{key}"] = value, str(layer)
    values = {key: value for key, value in values.items() if value is not None}
    options = {key: value for key, value in options.items() if value is not None}
    loss = values.get("loss", RunConfig.model_fields["loss"].default)
    known = loss_options(loss, **options)
    for key in options:
        if key not in known:
            raise _unknown(key, loss, known, origin[f"options.{key}"])
    notes = []
    for key in ("scale", "margin"):
        if key in values and key not in known:
            notes.append(f"{loss} has no {key}: {key}={values[key]} is ignored")
            del values[key], origin[key]
    if isinstance(values.get("data"), str):
        values["data"] = _absolute(values["data"])
    return Settings(RunConfig(**values, options=options), origin, notes, list(layers))


def _spread(layer: Layer) -> Layer:
    """The layer with the options that its loss carries, each where it belongs."""
    values, options = {}, {}
    for key, value in layer.values.items():
        if key in RunConfig.model_fields:
            values[key] = value
        elif layer.explicit:
            options[key] = value
        else:
            raise OptionError(f"{layer.detail or layer.name}: {unknown_setting(key)}")
    table = values.pop("options", {})
    if not isinstance(table, Mapping):
        where = "" if layer.explicit else f"{layer.detail}: "
        raise OptionError(f"{where}options={table!r} must be a table of names and values")
    carried = dict(table)
    if values.get("loss") is not None:
        values["loss"], more = _split_loss(values["loss"])
        carried |= more
    carried |= options
    of_run = {key: carried.pop(key) for key in ("scale", "margin", *TRAINED) if key in carried}
    return replace(layer, values={**of_run, **values, "options": carried})


def _without_replaced(layers: list[Layer]) -> list[Layer]:
    """The layers without the values that later ones make void. Explicit values always count.

    Another loss does not inherit the scale, margin and options that a layer has for its own. And
    classes, split and hold_out replace each other: the last layer with one of them says which
    identities are known.
    """
    losses = [RunConfig.model_fields["loss"].default]  # that each layer means: its own, or that …
    for layer in layers:  # … of the layer before
        losses.append(layer.values.get("loss") or losses[-1])
    result = []
    for number, (layer, loss) in enumerate(zip(layers, losses[1:], strict=True)):
        void: set[str] = set()
        if not layer.explicit:
            if loss != losses[-1]:
                void |= set(layer.tuned)
            if any(key in later.values for later in layers[number + 1 :] for key in _IDENTITIES):
                void |= set(_IDENTITIES)
        values = {key: value for key, value in layer.values.items() if key not in void}
        result.append(replace(layer, values=values))
    return result


def _unknown(key: str, loss: str, known: Mapping[str, Any], layer: str) -> OptionError:
    """The error for a name that is neither a setting of a run nor an option of its loss."""
    hint = did_you_mean(key, [*RunConfig.model_fields, *known])
    hint = hint or f"{loss} takes {', '.join(known) or 'no options'}"
    where = "" if layer == OPTIONS else f"{layer}: "
    return OptionError(
        f"{where}no setting is called {key!r}, and {loss} has no such option; {hint}"
    )


@dataclass(frozen=True)
class Recipe:
    """Settings that were tried on a dataset.

    title: one line about it. data: the dataset. settings: by their names in the configuration.
    """

    title: str
    data: str
    settings: dict[str, Any]


def recipe_names() -> list[str]:
    """Every recipe, sorted.

    >>> recipe_names()
    ['mnist', 'omniglot', 'orl']
    """
    return sorted(file.name.removesuffix(".toml") for file in _RECIPES.iterdir())


def read_recipe(name: str) -> Recipe:
    """The recipe called `name`; raises `OptionError` where there is none."""
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names())
    return Recipe(**tomllib.loads((_RECIPES / f"{name}.toml").read_text(encoding="utf-8")))


def recipe_settings(name: str, data: str) -> dict[str, Any]:
    """The settings of a recipe for the dataset `data`.

    On other data than its own a recipe says nothing about which identities are held out.
    """
    recipe = read_recipe(name)
    settings = {**recipe.settings, "recipe": name}
    if data != recipe.data:
        for key in _OF_ITS_DATA:
            settings.pop(key, None)
    return settings


def suitable_names() -> set[str]:
    """The settings of which `suitable_settings` may give other values than the defaults.

    >>> {"network", "epochs", "hold_out"} <= suitable_names(), "loss" in suitable_names()
    (True, False)
    """
    names = {"augment", "epochs", "hold_out"}
    for recipe in map(read_recipe, ("omniglot", "orl")):
        for name, value in recipe.settings.items():
            if name not in _OF_CHARACTERS and value != RunConfig.model_fields[name].default:
                names.add(name)
    return names


def suitable_settings(dataset: Dataset) -> dict[str, Any]:
    """Settings for data that nobody has tried anything on.

    Small images take the network and the training of the omniglot recipe, larger ones those of
    orl, vectors an mlp; each for so many epochs that small data gets 3,000 steps. Where at
    least 20 identities have two images or more, a tenth of these is held out for validation and
    another for testing; of fewer than 80 eight each, but at most a fifth. Rotations and mirror
    images are never taken for other identities unasked.
    """
    shape = dataset.train.shape
    vectors = len(shape) == 1 or min(shape[1:]) < _LEAST_GLYPH
    small = vectors or max(shape[1:]) <= _SMALL or min(shape[1:]) < _LEAST_FACE
    recipe = read_recipe("omniglot" if small else "orl")
    settings = {k: v for k, v in recipe.settings.items() if k not in _OF_CHARACTERS}
    if vectors:
        settings["network"] = "mlp"
    elif dataset.train.images.dtype == np.uint8:
        settings["augment"] = ["affine"]
    batch = int(settings.get("batch", 256))
    per_epoch = max(1, len(dataset.train) // batch)
    settings["epochs"] = int(np.clip(_STEPS // per_epoch, 10, 100))
    counts = count_held_out(dataset)
    several = int((counts >= 2).sum())
    if not dataset.apart and several >= _LEAST:
        # A rule's shares are of all identities, and there may be many with a single image.
        wanted = min(max(_HELD_OUT[0], _FEW_HELD_OUT / several), _HELD_OUT[1])
        share = round(wanted * several / len(counts), 6)
        settings["hold_out"] = {"validation": share, "test": share}
    return settings


def inherited_settings(old: Run, data: str) -> dict[str, Any]:
    """The settings that a run on `data` takes over from the run `old` that it starts from.

    They are the old run's, with a quarter of its epochs, a fifth of its learning rate, and the
    margin in full from the first step on. Images are read at the size that the network is used to.
    Identities are held out by the same rule, if it is one of shares, or the data is the same.
    """
    config = old.config
    of_each_run = {"data", "recipe", "mapping", "start", "freeze", "size", "channels", "seed"}
    of_each_run |= {"shape", "class_names", *_IDENTITIES}
    values = config.model_dump(exclude_none=True, exclude=of_each_run)
    values |= {
        "start": str(old.path.resolve()),
        "epochs": max(1, config.epochs // _SHORTER),
        "learning_rate": config.learning_rate / _SLOWER,
        "margin_warm_up": 0.0,
        "options": {key: value for key, value in config.options.items() if key != "warmup"},
    }
    shape = config.shape or ()
    if len(shape) == 3 and shape[0] in (1, 3) and data not in DATASETS:  # these have their size
        values |= {"size": shape[1:], "channels": shape[0]}
    rule = config.hold_out
    shares = rule is not None and all(not isinstance(part, tuple) for part in rule.values())
    if shares or (rule is not None and data == config.data):
        values["hold_out"] = rule
    return values


def is_user_data(data: str) -> bool:
    """Whether `data` is a file or folder of the user's, and not the name of a dataset."""
    return bool(data) and data not in DATASETS and Path(data).exists()


def _absolute(data: str) -> str:
    """A user's data by its whole path, so that the run finds it from anywhere; names stay."""
    return str(Path(data).resolve()) if is_user_data(data) else data


def _file_layer(file: Path) -> Layer:
    """The settings in a file. A run's config.toml stands beside copies of its split and mapping:
    these count, as the originals may have moved or changed."""
    values = read_settings(file)
    if file.name == "config.toml":
        split = file.with_name("split.json")
        if split.is_file() and ("split" in values or "hold_out" in values):
            values["split"] = str(split)
            values.pop("hold_out", None)
        if "mapping" in values:
            values["mapping"] = str(file.with_name("mapping.json"))
    return Layer("file", values, str(file))


def parse_changes(texts: Sequence[str]) -> dict[str, Any]:
    """What --set asks for, as KEY=VALUE each: settings of the run and options of the loss."""
    elsewhere = {"recipe": "--recipe", "start": "--from"}
    values = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise OptionError(f"--set {text}: write KEY=VALUE")
        if key in elsewhere:
            raise OptionError(f"--set {text}: write {elsewhere[key]} {value}")
        values[key] = parse_setting(key, value)
    return values


def parse_setting(key: str, text: str) -> Any:
    """A setting or an option of the loss from text; an empty text takes it away.

    >>> parse_setting("augment", "affine:rotate=10,flip"), parse_setting("size", "64")
    (['affine:rotate=10', 'flip'], [64, 64])
    >>> parse_setting("hold_out", "0.1,0.2"), parse_setting("epochs", "3")
    ({'validation': 0.1, 'test': 0.2}, 3)
    """
    if key == "augment":
        text = "" if text == "none" else text
        return [part.strip() for part in text.split(",") if part.strip()]
    if not text or (text == "none" and key in ("size", "hold_out")):
        return None
    if key == "size":
        return list(parse_size(text))
    if key == "hold_out":
        shares = [_parse_value(part) for part in text.split(",")]
        if len(shares) != 2 or not all(isinstance(share, int | float) for share in shares):
            raise OptionError(
                "hold_out is written 0.1,0.1 for the shares of validation and test, or none, not "
                f"{text!r}"
            )
        return {"validation": shares[0], "test": shares[1]}
    field = RunConfig.model_fields.get(key)
    takes_text = field is not None and field.annotation in (str, str | None)
    return text if takes_text else _parse_value(text)


def _parse_value(text: str) -> bool | int | float | str:
    """A value as people write it: true, false, a number, or the text itself."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _split_loss(text: object) -> tuple[str, dict[str, Any]]:
    """A loss and the options that it carries, from arcface:subcenters=2:fallback=easy."""
    name, *parts = (part.strip() for part in str(text).split(":"))
    options = {}
    for part in parts:
        option, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"{text!r}: write options as {name}:OPTION=VALUE")
        options[option.strip()] = _parse_value(value)
    return name, options
