"""The way of one image from a folder into a batch is the one that the package's docstring tells."""

import re
import sys
import threading
from pathlib import Path
from types import FrameType

import torch

import arcset.data.sources
from arcset.data import Samples, load_dataset, select


def test_the_docstring_tells_the_journey(photos: Path) -> None:
    told = re.findall(r"^\d+\. `([\w.]+)`", arcset.data.sources.__doc__ or "", re.MULTILINE)
    assert 5 <= len(told) <= 10
    called: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "arcset/data" in frame.f_code.co_filename.replace("\\", "/"):
            called.append(frame.f_code.co_qualname)

    threading.setprofile(watch)  # of threads that begin from now on
    sys.setprofile(watch)
    try:
        selection = select(load_dataset(photos), "anna,ben")
        batch = Samples(selection.train).take(torch.tensor([0, 1]))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert batch.shape == (2, 1, 6, 5)
    start = called.index("decode_samples")  # before it, headers have been looked at
    calls = [name for name in called[:start] if name in told[: told.index("decode_samples")]]
    calls += [name for name in called[start:] if name in told]
    assert list(dict.fromkeys(calls)) == told
