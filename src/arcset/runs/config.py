"""One typed configuration per run, kept as config.toml beside the weights."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from arcset.errors import OptionError, RunError
from arcset.evaluation.measures import validated
from arcset.files import parse_toml, write_text
from arcset.registry import did_you_mean

__all__ = ["RunConfig", "explain_refusal", "read_settings", "unknown_setting"]

_SHOWN = 60  # characters of a refused value

# Far beyond what anyone trains, and small enough to compute with: a file may say anything.
_MANY = 10**6
_Side = Annotated[int, Field(ge=1, le=2**16)]  # of an image in pixels; or channels
_Values = Annotated[int, Field(ge=1, le=2**24)]  # of a vector, or a side of an image


class RunConfig(BaseModel):
    """Everything that decides how a run comes out. Frozen: a change makes a new one.

    >>> RunConfig(data="mnist-sample", loss="arcface", dim=2, epochs=0)
    Traceback (most recent call last):
    arcset.errors.OptionError: epochs=0 must be at least 1
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field(description="a named dataset, or the path of one's own")
    recipe: str | None = Field(None, description="whose settings stand where none were given")
    classes: str | None = Field(
        None, description="the known classes, such as 0-4; all if not given"
    )
    split: str | None = Field(
        None, description="path of a split file, instead of classes; the run keeps a copy"
    )
    hold_out: dict[str, float | tuple[str, ...]] | None = Field(
        None, description="identities kept from training: shares, or patterns of their names"
    )
    train_on: Literal["train", "all"] = Field(
        "train", description="all: the known classes' test images, too, so that none test them"
    )
    size: tuple[_Side, _Side] | None = Field(
        None, description="height and width that images are read at; from the files if not given"
    )
    channels: Literal[1, 3] | None = Field(
        None, description="1 reads images grey, 3 in colour; from the files if not given"
    )
    fit: Literal["pad", "crop", "stretch"] = Field(
        "pad", description="how images of other proportions come to the size"
    )
    invert: bool = Field(False, description="whether image files are read as negatives")
    mapping: str | None = Field(
        None, description="path of a JSON file that merges or removes identities; a copy is kept"
    )
    start: str | None = Field(
        None, description="path of the run whose weights and centers training begins with"
    )
    freeze: int = Field(
        0,
        ge=0,
        le=_MANY,
        description="layers with weights, from the input on, that stay as they start",
    )
    loss: str = Field("arcface", description="what training minimizes")
    scale: float | None = Field(None, description="s of the cosine losses")
    margin: float | None = Field(None, description="the loss's margin")
    options: dict[str, bool | int | float | str] = Field(
        default_factory=dict, description="further options of the loss"
    )
    share_centers: bool = Field(
        False, description="whether processes under torchrun hold a slice of the centers each"
    )
    margin_warm_up: float = Field(
        0.2, ge=0, le=1, description="share of the steps in which the margin comes in"
    )
    network: str = Field("simple", description="images to embeddings")
    dropout: float | None = Field(
        None, ge=0, lt=1, description="before the embedding, where the network has it"
    )
    dim: int = Field(128, ge=2, le=2**16, description="dimension of the embedding")
    epochs: int = Field(20, ge=1, le=_MANY)
    batch: int = Field(256, ge=2, le=2**24)
    per_class: int = Field(
        0,
        ge=0,
        le=_MANY,
        description="images of each class in a batch; 0 draws images and not classes",
    )
    accumulate: int = Field(
        1,
        ge=1,
        le=_MANY,
        description="parts that a batch goes through the network in, to save memory",
    )
    augment: tuple[str, ...] = Field(
        (), description="random changes of the images, as affine:rotate=10"
    )
    new_classes: Literal["none", "rotations", "reflections", "both"] = Field(
        "none", description="turned or mirrored images as classes of their own"
    )
    seed: int = Field(0, ge=0, lt=2**63)
    optimizer: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = Field(
        0.1, gt=0, le=1e30, description="its peak, where the schedule has one"
    )
    center_rate: float = Field(
        1.0, gt=0, le=1e30, description="learning rate of the loss's own weights, as a multiple"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd")
    weight_decay: float = Field(
        5e-4, ge=0, le=1e30, description="of weight matrices; not of biases"
    )
    schedule: Literal["one-cycle", "cosine", "constant"] = "one-cycle"
    warm_up: float | None = Field(
        None, ge=0, lt=1, description="share of the steps in which the rate rises"
    )
    clip: float | None = Field(None, gt=0, description="largest norm of the gradient")
    ema: float = Field(
        0.0, ge=0, lt=1, description="decay of the weights' moving average, used instead of them"
    )
    autocast: Literal["none", "bfloat16", "float16"] = Field(
        "none", description="type that the network computes in"
    )
    dtype: Literal["float32", "float64"] = Field(
        "float32", description="type of the weights in training"
    )
    compile: bool = Field(False, description="whether torch.compile works on the network")
    validate_every: int = Field(
        0, ge=0, le=_MANY, description="epochs between validations; 0: about 20 in all"
    )
    best_by: str = Field(
        "map", description="measure on the validation identities by which the best epoch is kept"
    )
    patience: int = Field(
        0,
        ge=0,
        le=_MANY,
        description="validations without improvement before training stops; 0: never",
    )
    checkpoint_minutes: float = Field(
        10.0,
        ge=0,
        le=_MANY,
        description="between checkpoints within an epoch; 0: only where it ends",
    )
    checkpoint_steps: int = Field(
        0, ge=0, le=10**12, description="between checkpoints; 0: by the clock only"
    )
    checkpoints: int = Field(2, ge=1, le=_MANY, description="how many of the newest are kept")
    snapshot: int = Field(
        1000, ge=0, le=10**9, description="samples of each part whose embeddings are kept per epoch"
    )
    frames: int = Field(
        100, ge=1, le=_MANY, description="most epochs that samples are kept of, evenly chosen"
    )
    shape: tuple[_Values, ...] | None = Field(
        None,
        max_length=3,
        description="channels, height and width of the images; filled in from the data",
    )
    class_names: tuple[str, ...] | None = Field(
        None, description="names of the known classes; filled in from the data"
    )

    @field_validator("best_by")
    @classmethod
    def _check_best_by(cls, key: str) -> str:
        known = validated()
        if key not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return key

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise OptionError(explain_refusal(error, type(self))) from None

    def replace(self, **changes: Any) -> "RunConfig":
        """A copy with some values changed, checked like a new one."""
        return RunConfig(**{**self.model_dump(), **changes})

    def save(self, path: Path) -> None:
        """Write as TOML; what is None is left out."""
        write_text(path, tomli_w.dumps(self.model_dump(exclude_none=True)))

    @classmethod
    def load(cls, path: Path) -> "RunConfig":
        """Read what `save` wrote; a `RunError` names the file where it cannot be read."""
        try:
            return cls(**read_settings(path))
        except OptionError as error:
            raise RunError(f"{path} is not a readable run configuration: {error}") from None


def read_settings(path: Path) -> dict[str, Any]:
    """Settings from a TOML file, which need not be complete; their values are not checked yet."""
    try:
        found = parse_toml(path.read_text(encoding="utf-8"))
        options = found.get("options", {})  # a table in any case: others are added to it
        if not isinstance(options, dict):
            raise ValueError(f"options={_shortened(options)} must be a table of names and values")
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is not a readable run configuration: {error}") from None
    return found


def unknown_setting(name: str, model: type[BaseModel] = RunConfig) -> str:
    """The sentence for a name that no setting has, with the nearest one that there is."""
    hint = did_you_mean(name, model.model_fields)
    return f"there is no setting called {name!r}; {hint or 'docs/training.md lists them'}"


def explain_refusal(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """The first of pydantic's complaints in our words: the setting, its value, what is expected."""
    problems = error.errors(include_url=False)
    first = problems[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden" and model is not None:
        return unknown_setting(where, model)
    if first["type"] == "missing" and len(first["loc"]) > 1:
        return f"{first['loc'][0]}={_shortened(first['input'])} has too few entries"
    if first["type"] == "missing":
        return f"the setting {where!r} is missing"
    place, kind = first["loc"][:-1], first["loc"][-1:]
    same = [first]
    if place and isinstance(kind[0], str):  # one of several types: each of them has a complaint
        same = [one for one in problems if one["loc"][:-1] == place]
        where = ".".join(str(part) for part in place)
    *others, last = dict.fromkeys(_expected(one) for one in same)
    expected = f"{', '.join(others)} or {last}" if others else last
    name = f"{where}=" if where else ""
    return f"{name}{_shortened(first['input'])} must be {expected}"


def _expected(problem: Any) -> str:
    """What fits, from a problem as pydantic tells it."""
    kind, context = problem["type"], problem.get("ctx", {})
    limits = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
    for key, words in limits.items():
        if key in context:
            limit = context[key]
            return f"{words} {limit:,}" if isinstance(limit, int) else f"{words} {limit:,.10g}"
    if kind == "literal_error":
        return str(context["expected"])
    if kind == "too_long":
        return f"a list of at most {context['max_length']} entries"
    for beginning, words in {
        "int": "a whole number",
        "float": "a number",
        "finite": "a finite number",
        "bool": "true or false",
        "string": "text",
        "path": "a path",
        "dict": "a table of names and values",
        "tuple": "a list",
        "list": "a list",
    }.items():
        if kind.startswith(beginning):
            return words
    return str(problem["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")


def _shortened(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number of more digits than Python writes
        text = f"a {type(value).__name__} too long to write"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
