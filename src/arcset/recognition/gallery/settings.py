"""What a gallery says about itself as a whole: in a file, its `meta` table."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from arcset.checks import check_count
from arcset.errors import DataError, OptionError
from arcset.files import wrong_entry
from arcset.recognition.gallery.parquet import GalleryFile
from arcset.recognition.gallery.scoring import Scoring
from arcset.recognition.recognizer import ImageEmbedder

__all__ = ["Settings", "first_settings"]

_LARGEST_DIM = 65536


class Settings(BaseModel):
    """The settings of a gallery, all but its calibration, which is large.

    Fields:
        dim: length of an embedding.
        model_name, model_digest: what makes the embeddings; empty where nobody said.
        model_path: the run or file of that model, loaded when it is needed; None if unknown.
        faces: "auto" or a detector's file where faces are found in photos first; "none"; or None.
        scoring, keep_images: as in `Gallery.open`.
        calibrated: changes with the gallery's own calibration; empty without one.
        changes: of a file, how often samples were removed, merged or moved to another model.
        erase_due: of a file, whether bytes of what was removed may be left in it.
        written: all of them by key, as they are written.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    dim: int = Field(ge=1, le=_LARGEST_DIM)
    model_name: str = Field(alias="model")
    model_digest: str = Field(alias="digest", pattern="^[ -~]*$")
    model_path: str | None = None
    faces: str | None = None
    scoring: Annotated[Scoring, BeforeValidator(Scoring.of)]
    keep_images: bool
    calibrated: str = ""
    changes: int = 0
    erase_due: bool = False
    written: dict[str, str]

    @classmethod
    def of(cls, found: Mapping[str, Any], path: object) -> "Settings":
        """From keys and values; raises `DataError`, which names the path, if they do not fit."""
        try:
            return cls.model_validate({**found, "written": {**found}})
        except ValidationError as error:
            raise DataError(f"{path} is damaged in its settings: {wrong_entry(error)}") from None

    def check_fits(self, recognizer: ImageEmbedder | None, dim: int | None, path: object) -> None:
        """Raise `OptionError` for another model or dimension than the gallery's."""
        if dim is not None and dim != self.dim:
            raise OptionError(f"dim={dim!r}, but the embeddings in {path} have {self.dim} numbers")
        if recognizer is None:
            return
        if self.model_digest not in ("", recognizer.digest):
            raise OptionError(
                f"{path} belongs to the model {self.model_name!r} ({self.model_digest[:12]}), not"
                f" to the model {recognizer.name!r} ({recognizer.digest[:12]}): name that one, or"
                " migrate the gallery"
            )
        if recognizer.dim != self.dim:
            raise OptionError(
                f"{recognizer.name!r} has {recognizer.dim} dimensions, and {path} {self.dim}"
            )

    def model_of(self, file: GalleryFile, path: object, *, empty: bool) -> dict[str, str]:
        """Settings that a gallery takes from a file: its model, where it has none and is empty.

        Raises `OptionError` unless the file's embeddings are of the gallery's model.
        """
        if file.dim != self.dim:
            raise OptionError(
                f"{file.path} holds embeddings of {file.dim} numbers, and {path} of {self.dim}"
            )
        if file.model_digest == self.model_digest:
            return {}
        if not self.model_digest and empty:
            return {"model": file.model_name, "digest": file.model_digest}
        of_file, of_gallery = (
            f"of the model {name!r} ({digest[:12]})" if digest else "of no known model"
            for name, digest in (
                (file.model_name, file.model_digest),
                (self.model_name, self.model_digest),
            )
        )
        raise OptionError(
            f"the embeddings in {file.path} are {of_file}, and those in {path} {of_gallery}"
        )


def first_settings(
    path: object,
    recognizer: ImageEmbedder | None,
    dim: int | None,
    scoring: str | None,
    keep_images: bool | None,
) -> dict[str, str]:
    """The `meta` table of a new gallery; raises `OptionError` where that cannot be made."""
    if recognizer is None and dim is None:
        raise OptionError(
            f"{path} does not exist: to make it, name a model or the dimension of embeddings"
        )
    if recognizer is not None:
        if dim not in (None, recognizer.dim):
            raise OptionError(f"dim={dim!r}, but {recognizer.name} has {recognizer.dim} dimensions")
        dim = recognizer.dim
    dim = check_count("dim", dim, 1, _LARGEST_DIM)
    return {
        "dim": str(dim),
        "model": "" if recognizer is None else recognizer.name,
        "digest": "" if recognizer is None else recognizer.digest,
        "scoring": Scoring.of(scoring or "max").word,
        "keep_images": "yes" if keep_images else "no",
    }
