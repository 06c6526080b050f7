"""One typed configuration per run, kept as config.toml beside the weights."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from arcset.errors import OptionError, RunError
from arcset.evaluation.measures import validated
from arcset.files import parse_toml, write_text
from arcset.registry import did_you_mean

#: What `data` and `network` say where a dataset or a module was handed over in Python.
GIVEN = "given in Python"

_LONGEST = 100  # characters of a value in a message

# Far beyond what anyone trains, and small enough to compute with: a file may hold any number.
_MANY = 10**6
_Side = Annotated[int, Field(ge=1, le=2**16)]  # of an image in pixels; or channels
_Values = Annotated[int, Field(ge=1, le=2**24)]  # entries of a vector, or a side of an image


class RunConfig(BaseModel):
    """Everything that decides the outcome of a run. Frozen: a change makes a new one.

    The command line derives its options from the fields; "unset" says what None stands for.

    >>> RunConfig(data="mnist-sample", loss="arcface", dim=2, epochs=0)
    Traceback (most recent call last):
    arcset.errors.OptionError: epochs=0 must be at least 1
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field(description="A named dataset, or the path of your own data.")
    recipe: str | None = Field(
        None, description="The recipe whose settings were used where none were given."
    )
    classes: str | None = Field(
        None,
        description="The known classes, e.g. 0-4 or 0,2,5; the others stay unseen.",
        json_schema_extra={"unset": "all"},
    )
    split: str | None = Field(
        None,
        description="File from `arcset data split` with the known, validation and test classes, "
        "instead of classes; the run keeps a copy.",
    )
    hold_out: dict[str, float | tuple[str, ...]] | None = Field(
        None,
        description="Identities to hold out for validation and test: their shares, e.g. 0.1,0.2, "
        "or none; in a file also patterns of their names.",
    )
    train_on: Literal["train", "all"] = Field(
        "train",
        description="all: train on the test images of the known classes, too; none test them then.",
    )
    size: tuple[_Side, _Side] | None = Field(
        None,
        description="Resize images to this height and width, e.g. 64 or 64x48.",
        json_schema_extra={"unset": "from the files"},
    )
    channels: Literal[1, 3] | None = Field(
        None,
        description="Read images in grey (1) or in colour (3).",
        json_schema_extra={"unset": "from the files"},
    )
    fit: Literal["pad", "crop", "stretch"] = Field(
        "pad", description="How images of other proportions are brought to the size."
    )
    invert: bool = Field(False, description="Read image files as negatives.")
    mapping: str | None = Field(
        None,
        description='JSON file that merges or removes identities, e.g. {"anna 2": "anna", '
        '"unknown": null}; the run keeps a copy.',
    )
    start: str | None = Field(
        None, description="The run whose weights and class centers training starts with."
    )
    freeze: int = Field(
        0,
        ge=0,
        le=_MANY,
        description="How many layers with weights, counted from the input, stay as they start.",
    )
    loss: str = Field("arcface", description="The loss that training minimizes.")
    scale: float | None = Field(
        None,
        description="Scale s of the cosine losses.",
        json_schema_extra={"unset": "from classes and dimension"},
    )
    margin: float | None = Field(
        None,
        description="Margin of the loss.",
        json_schema_extra={"unset": "from classes and dimension"},
    )
    options: dict[str, bool | int | float | str] = Field(
        default_factory=dict, description="Further options of the loss."
    )
    share_centers: bool = Field(
        False, description="Under torchrun, give each process a slice of the class centers."
    )
    margin_warm_up: float = Field(
        0.2, ge=0, le=1, description="Share of the steps over which the margin grows to its value."
    )
    network: str = Field("simple", description="The network, from images to embeddings.")
    network_module: str | None = Field(
        None, description="Module that registers the network, if not arcset; filled in."
    )
    dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Dropout before the embedding, if the network has it.",
        json_schema_extra={"unset": "the network's"},
    )
    dim: int = Field(128, ge=2, le=2**16, description="Dimension of the embedding.")
    epochs: int = Field(20, ge=1, le=_MANY, description="Passes over the training images.")
    batch: int = Field(256, ge=2, le=2**24, description="Images per step.")
    per_class: int = Field(
        0,
        ge=0,
        le=_MANY,
        description="Images of each class in a batch; 0 draws images regardless of class.",
    )
    accumulate: int = Field(
        1,
        ge=1,
        le=_MANY,
        description="Pass each batch through the network in this many parts, to save memory.",
    )
    augment: tuple[str, ...] = Field(
        (), description="Random changes of the images, e.g. affine:rotate=15,flip, or none."
    )
    new_classes: Literal["none", "rotations", "reflections", "both"] = Field(
        "none", description="Train on rotated or mirrored images as classes of their own."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Decides initial weights and shuffling.")
    optimizer: Literal["sgd", "adamw"] = Field("sgd", description="The optimizer.")
    learning_rate: float = Field(0.1, gt=0, le=1e30, description="Peak learning rate.")
    center_rate: float = Field(
        1.0,
        gt=0,
        le=1e30,
        description="Learning rate of the loss's weights, as a multiple of the network's.",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="Momentum of sgd.")
    weight_decay: float = Field(
        5e-4, ge=0, le=1e30, description="Weight decay of matrices and kernels; not of biases."
    )
    schedule: Literal["one-cycle", "cosine", "constant"] = Field(
        "one-cycle", description="How the learning rate changes over the steps."
    )
    warm_up: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Share of the steps over which the learning rate rises.",
        json_schema_extra={"unset": "0.3 for one-cycle, 0 for the others"},
    )
    clip: float | None = Field(None, gt=0, description="Largest norm of the gradient.")
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Decay of a moving average of the weights, which replaces them; 0: none.",
    )
    autocast: Literal["none", "bfloat16", "float16"] = Field(
        "none", description="Type that the network computes in."
    )
    dtype: Literal["float32", "float64"] = Field(
        "float32", description="Type of the weights during training."
    )
    compile: bool = Field(False, description="Compile the network with torch.compile.")
    validate_every: int = Field(
        0, ge=0, le=_MANY, description="Epochs between validations; 0: about 20 validations in all."
    )
    best_by: str = Field(
        "map", description="Measure on the validation identities that decides the best epoch."
    )
    patience: int = Field(
        0,
        ge=0,
        le=_MANY,
        description="Stop after this many validations without improvement; 0: never.",
    )
    checkpoint_minutes: float = Field(
        10.0,
        ge=0,
        le=_MANY,
        description="Minutes between checkpoints within an epoch; 0: only at its end.",
    )
    checkpoint_steps: int = Field(
        0, ge=0, le=10**12, description="Steps between checkpoints; 0: by the clock only."
    )
    checkpoints: int = Field(2, ge=1, le=_MANY, description="How many checkpoints to keep.")
    snapshot: int = Field(
        1000,
        ge=0,
        le=10**9,
        description="Samples of each part whose embeddings are saved after an epoch.",
    )
    frames: int = Field(
        100, ge=1, le=_MANY, description="At most this many epochs, evenly spread, are saved."
    )
    shape: tuple[_Values, ...] | None = Field(
        None,
        max_length=3,
        description="Channels, height and width of the images; filled in from the data.",
    )
    class_names: tuple[str, ...] | None = Field(
        None, description="Names of the known classes; filled in from the data."
    )

    @field_validator("best_by")
    @classmethod
    def _check_best_by(cls, key: str) -> str:
        known = validated()
        if key not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
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
    """Settings from a TOML file, which may hold only some; their values are not checked yet."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is not a readable run configuration: {error}") from None


def unknown_setting(name: str, model: type[BaseModel] = RunConfig) -> str:
    """The sentence for a name that no setting has, with the nearest one that there is."""
    hint = did_you_mean(name, model.model_fields)
    return f"there is no setting called {name!r}; {hint or 'docs/training.md lists them'}"


def explain_refusal(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Pydantic's first complaint in plain words: the setting, its value, what is expected."""
    problems = error.errors(include_url=False)
    first = problems[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden" and model is not None:
        return unknown_setting(where, model)
    if first["type"] == "missing" and len(first["loc"]) > 1:
        return f"{first['loc'][0]}={shorten(first['input'])} has too few entries"
    if first["type"] == "missing":
        return f"the setting {where!r} is missing"
    entry, kind = first["loc"][:-1], first["loc"][-1:]
    same = [first]
    if entry and isinstance(kind[0], str):  # one of several types: each of them has a complaint
        same = [problem for problem in problems if problem["loc"][:-1] == entry]
        where = ".".join(str(part) for part in entry)
    *others, last = dict.fromkeys(_expected(problem) for problem in same)
    expected = f"{', '.join(others)} or {last}" if others else last
    name = f"{where}=" if where else ""
    return f"{name}{shorten(first['input'])} must be {expected}"


def _expected(problem: Any) -> str:
    """What pydantic expected instead, in plain words."""
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
        "dict": "a table of names and values",
        "tuple": "a list",
    }.items():
        if kind.startswith(beginning):
            return words
    wrong = str(problem["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return wrong.removeprefix("must be ")


def shorten(value: object) -> str:
    """A value in a message; of a long one its two ends, as paths may differ at either."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number of more digits than Python writes
        text = f"a {type(value).__name__} too long to write"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
