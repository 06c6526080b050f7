"""Small but real runs, each trained once for all that is drawn of them."""

import pytest

from arcset.reports import RunView
from arcset.runs import RunConfig
from arcset.training import train

CONFIG = RunConfig(
    data="mnist-sample",
    classes="0-2",
    network="mlp",
    dim=2,
    epochs=2,
    batch=64,
    snapshot=60,
    scale=8.0,
    optimizer="adamw",
    learning_rate=0.002,
)
PLAIN = {"loss": "softmax", "scale": None}
RUNS = {
    "arcface": {},
    "normface": {"loss": "normface"},
    "softmax": PLAIN,
    "slim": {**PLAIN, "options": {"bias": False}},
    "triplet": {"loss": "triplet", "scale": None},
    "sphere": {"dim": 3},
    "space": {**PLAIN, "dim": 3},
    "wide": {"dim": 5},
    "other": {"classes": "0-3"},
    "short": {"epochs": 1},
    "nothing": {"snapshot": 0, "epochs": 1},
}


class Views(dict[str, RunView]):
    """Of `RUNS`, by name; trained when first asked for."""

    def __init__(self, folder):
        self.folder = folder

    def __missing__(self, name):
        run = train(CONFIG.replace(**RUNS[name]), self.folder / name, device="cpu")
        self[name] = RunView(run.path)
        return self[name]


@pytest.fixture(scope="session")
def views(tmp_path_factory):
    return Views(tmp_path_factory.mktemp("runs"))
