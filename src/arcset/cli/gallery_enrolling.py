"""Enrolling images: each once, some at a time, whatever cannot be read left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arcset.cli.gallery_sources import Wanted
from arcset.cli.model_option import Place, find_settings, load_model, open_gallery, remember
from arcset.data.decode import reason
from arcset.errors import DataError, InputError, OptionError
from arcset.recognition.embedder import Progress
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.originals import original
from arcset.recognition.inputs import ImageFile
from arcset.text import plural

__all__ = ["Enrolled", "Target", "enroll_files"]

_PART = 256  # files that are embedded, and then stored, at a time


@dataclass
class Enrolled:
    """What became of the files.

    Fields:
        samples: how many were stored. subjects: of whom. new: those of them who were new.
        already: how many the gallery held already for the same subject.
        shared: files whose bytes were given for several subjects, and for whom.
        skipped: those that cannot be read, and why.
        notes: which face was taken of photos that show several.
        total_subjects, total_samples: of the gallery now.
    """

    samples: int = 0
    subjects: set[str] = field(default_factory=set)
    new: set[str] = field(default_factory=set)
    already: int = 0
    shared: dict[ImageFile, tuple[str, ...]] = field(default_factory=dict)
    skipped: dict[ImageFile, str] = field(default_factory=dict)
    notes: dict[ImageFile, str] = field(default_factory=dict)
    total_subjects: int = 0
    total_samples: int = 0

    def __str__(self) -> str:
        parts = []
        if self.samples:
            who = plural(len(self.subjects), "subject")
            new = f", {len(self.new):,} of them new" if len(self.new) < len(self.subjects) else ""
            parts.append(f"enrolled {plural(self.samples, 'image')} of {who}{new}")
        if self.already:
            were = "was" if self.already == 1 else "were"
            parts.append(f"{plural(self.already, 'image')} {were} enrolled already")
        return "; ".join(parts) or "nothing was enrolled"

    def json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "samples": self.samples,
            "subjects": sorted(self.subjects),
            "new": sorted(self.new),
            "already": self.already,
            "shared": {str(path): list(names) for path, names in self.shared.items()},
            "skipped": {str(path): why for path, why in self.skipped.items()},
            "notes": {str(path): note for path, note in self.notes.items()},
            "total_subjects": self.total_subjects,
            "total_samples": self.total_samples,
        }


class Target:
    """The gallery to enroll into, and its model; one that does not exist is made when `open` is
    called, so that none is left behind where nothing can be enrolled.
    """

    def __init__(
        self,
        path: Place,
        model: Path | None,
        faces: str | None,
        device: str,
        settings: Mapping[str, Any],
    ) -> None:
        self._path, self._model, self._faces, self._settings = path, model, faces, settings
        self.gallery: Gallery | None = None
        self.recognizer: Any
        if find_settings(path) is not None:
            self.gallery = open_gallery(path, model, faces, device=device, **settings)
            self.recognizer = self.gallery.recognizer
        elif model is not None:
            self.recognizer = load_model(model, faces, device=device)
        else:
            raise OptionError(f"{path} is not there yet: name the model it is for with --model")

    def open(self) -> Gallery:
        """The gallery, made if need be."""
        if self.gallery is None:
            self.gallery = Gallery.open(self._path, self.recognizer, **self._settings)
            if self._model is not None:
                remember(self.gallery, self._model, self._faces)
        return self.gallery

    def digests(self, name: str) -> set[str] | None:
        """Of the images that a subject has, as far as the gallery knows them; None of nobody."""
        if self.gallery is None or name not in self.gallery:
            return None
        return {sample.digest for sample in self.gallery.samples(name) if sample.digest}

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *_: object) -> None:
        if self.gallery is not None:
            self.gallery.close()


def enroll_files(wanted: Wanted, target: Target, progress: Progress) -> Enrolled:
    """Embed and store what is not there yet, some files at a time: what is stored stays, should
    this be interrupted, and is not stored again the next time.
    """
    done = Enrolled(skipped=dict(wanted.skipped))
    held: dict[str, set[str]] = {}  # by subject, the digests of its images
    owners: dict[str, dict[str, ImageFile]] = {}  # by digest, the subjects that it was given for
    finished = 0
    for part in wanted.parts(_PART):
        fresh: dict[ImageFile, tuple[str, str]] = {}
        for name, path in part:
            digest = _digest(path, done)
            if digest is None:
                continue
            if name not in held:
                known = target.digests(name)
                held[name] = known or set()
                if known is None:
                    done.new.add(name)
            if digest in held[name]:
                done.already += 1
                continue
            held[name].add(digest)
            owners.setdefault(digest, {})[name] = path
            fresh[path] = name, digest
        embedded = target.recognizer.embed_files(list(fresh)) if fresh else None
        if embedded is not None:
            for path, why in embedded.skipped.items():
                name, digest = fresh[path]
                done.skipped[path] = why
                held[name].discard(digest)
                del owners[digest][name]
            done.notes.update(embedded.notes)
            names = [fresh[path][0] for path in embedded.paths]
            if names:
                target.open().enroll_many(names, embedded.paths, embeddings=embedded.embeddings)
            done.samples += len(names)
            done.subjects.update(names)
        finished += len(part)
        progress(finished, len(wanted))
    done.new &= done.subjects
    shared = [paths for paths in owners.values() if len(paths) > 1]
    done.shared = {next(iter(paths.values())): tuple(paths) for paths in shared}
    if target.gallery is not None:
        done.total_subjects = len(target.gallery)
        done.total_samples = target.gallery.sample_count
    return done


def _digest(image: ImageFile, done: Enrolled) -> str | None:
    """SHA-256 of an image's bytes, as a gallery keeps it; None if it cannot be read."""
    try:
        return original(image).digest.hex()
    except (DataError, InputError) as error:
        done.skipped[image] = reason(error, str(image))
        return None
