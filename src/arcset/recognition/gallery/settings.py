"""What a gallery says about itself as a whole: in a file, its `meta` table."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from arcset.errors import DataError, OptionError
from arcset.evaluation.calibration.templates import Scoring
from arcset.files import wrong_entry
from arcset.recognition.recognizer import ImageEmbedder

LARGEST_DIM = 65536


class Settings(BaseModel):
    """The settings of a gallery, or of an export of one.

    Fields:
        dim: length of an embedding.
        model_name, model_digest: what makes the embeddings; empty where nobody said.
        model_path: the run or file of that model, loaded when it is needed; None if unknown.
        faces: "auto" or a detector's file where faces are found in photos first; "none"; or None.
        scoring, keep_images: as in `Gallery.open`.
        thresholds: the gallery's own calibration as JSON; None without one.
        changes: of a file, how often samples were removed, merged or moved to another model.
        last_removed: of a file, the highest number of a sample that was removed.
        erase_due: of a file, whether bytes of what was removed may be left in it.
        written: all of them by key, as they are written.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    dim: int = Field(ge=1, le=LARGEST_DIM)
    model_name: str = Field("", alias="model")
    model_digest: str = Field("", alias="digest", pattern="^[ -~]*$")
    model_path: str | None = None
    faces: str | None = None
    scoring: Annotated[Scoring, BeforeValidator(Scoring.of)] = Scoring.of("max")
    keep_images: bool = False
    thresholds: str | None = None
    changes: int = 0
    last_removed: int = 0
    erase_due: bool = False
    written: dict[str, Any]

    @classmethod
    def of(cls, values: Mapping[str, Any], path: object) -> "Settings":
        """From keys and values; raises `DataError`, which names the path, if they do not fit."""
        try:
            return cls.model_validate({**values, "written": {**values}})
        except ValidationError as error:
            raise DataError(f"{path} is damaged in its settings: {wrong_entry(error)}") from None

    @property
    def model_words(self) -> str:
        """The model, for a sentence."""
        name, digest = self.model_name, self.model_digest[:12]
        return f"the model {name!r} ({digest})" if digest else "no known model"

    def check_fits(self, recognizer: ImageEmbedder, path: object) -> None:
        """Raise `OptionError` for another model than the gallery's, or one that cannot be."""
        if self.model_digest not in ("", recognizer.digest):
            raise OptionError(
                f"{path} belongs to {self.model_words}, not to the model {recognizer.name!r}"
                f" ({recognizer.digest[:12]}): name that one, or migrate the gallery"
            )
        if recognizer.dim != self.dim:
            raise OptionError(
                f"{recognizer.name!r} has {recognizer.dim} dimensions, and {path} {self.dim}"
            )
