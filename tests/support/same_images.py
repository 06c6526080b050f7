"""One folder of images in every form that a source of them may have."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from arcset.data import pack
from support.recordio import insightface_records, write_records

FORMS = ("table.csv", "table.parquet", "arrays.npz", "images.pack", "train.rec")


def in_form(folder: Path, form: str) -> Path:
    """The images below `folder`, whose sub-folders are identities, in another form beside it."""
    files = sorted(folder.rglob("*.png"))
    names = [file.parent.relative_to(folder).as_posix() for file in files]
    out = folder.parent / form
    rows = [str(file.relative_to(folder.parent)) for file in files]
    if form == "table.csv":
        with out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("path", "label"), *zip(rows, names, strict=True)])
    elif form == "table.parquet":
        parquet.write_table(pa.table({"path": rows, "label": names}), out)
    elif form == "arrays.npz":
        np.savez(
            out, images=np.stack([np.asarray(Image.open(file)) for file in files]), labels=names
        )
    elif form == "images.pack":
        pack(folder, out)
    else:
        numbers = np.unique(names, return_inverse=True)[1].tolist()
        images = [(number, file.read_bytes()) for number, file in zip(numbers, files, strict=True)]
        write_records(out, insightface_records(images))
    return out
