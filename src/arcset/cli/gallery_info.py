"""`arcset gallery info`: what a gallery holds, and where "known" begins in it."""

from typing import Any

from arcset.cli import options as o
from arcset.cli.gallery_show import plain
from arcset.cli.model_option import Chosen, GalleryFile, existing, open_gallery, settings_of
from arcset.cli.output import print_json, print_text
from arcset.errors import ArcsetError
from arcset.text import plural

__all__ = ["info"]


def info(file: GalleryFile, json: o.Json = False) -> None:
    """Tell what a gallery holds, which model it is for, and where "known" begins.

    Example: arcset gallery info people.db
    """
    settings = settings_of(file)
    chosen, own = Chosen.read(settings.model_path), bool(settings.calibrated)
    why = ""
    try:
        found = open_gallery(file, device="cpu", read_only=True)
    except ArcsetError as error:  # its model is elsewhere: most can be told without
        found, why = existing(file, read_only=True), str(error)
    with found as opened:
        thresholds = opened.thresholds
        content: dict[str, Any] = {
            "file": str(file),
            "bytes": opened.byte_count,
            "subjects": len(opened),
            "samples": opened.sample_count,
            "scoring": opened.scoring,
            "keeps_images": opened.keep_images,
            "model": opened.model_name,
            "model_digest": opened.model_digest,
            "dim": opened.dim,
            "model_path": None if chosen is None else chosen.model,
            "faces": None if chosen is None else chosen.faces,
            "calibration": None if thresholds is None else {**thresholds.made_from, "own": own},
            "point": None,
            "note": why,
        }
        try:
            point = opened.working_point()
            content |= {"point": point.json(), "note": point.note}
            limit = str(point)
        except ArcsetError as error:
            content["note"] = content["note"] or str(error)
            limit = "none"
    if json:
        print_json(content)
        return
    print_text(_lines(content, limit))


def _lines(content: dict[str, Any], limit: str) -> str:
    made = content["calibration"]
    calibration = "none"
    if made is not None:
        whose = "the gallery's own" if made["own"] else "the model's"
        calibration = (
            f"{whose}, from {plural(made['identities'], 'identity', 'identities')}, "
            f"{plural(made['samples'], 'sample')}"
        )
    size = content["bytes"]
    faces = ", of the faces in photos" if content["faces"] not in (None, "none") else ""
    model = content["model"] or "none: embeddings are given"
    rows = {
        "subjects": f"{content['subjects']:,}",
        "samples": f"{content['samples']:,}, scored by {content['scoring']}",
        "images": "kept" if content["keeps_images"] else "not kept",
        "size": f"{size / 2**20:,.1f} MB" if size is not None else "not told by Milvus",
        "model": f"{model}, {content['dim']}-D{faces}",
        "at": content["model_path"] or "not remembered: name it with --model",
        "calibration": calibration,
        "threshold": limit,
    }
    lines = [f"{name:<12} {text}" for name, text in rows.items()]
    if content["note"]:
        lines.append(f"note: {content['note']}")
    return "\n".join(map(plain, lines))
