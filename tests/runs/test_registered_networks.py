"""Networks that another process cannot know by itself; see also tests/test_api.py."""

import numpy as np
import pytest
from torch import nn

from arcset import OptionError
from arcset.networks import NETWORKS
from arcset.runs import Run, RunConfig
from arcset.runs.model import load_model
from support.random_runs import random_run


def module(dim=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(100, dim))


def test_a_module_for_a_network_that_is_named_is_refused(tmp_path):
    run = random_run(tmp_path / "run")
    with pytest.raises(OptionError, match="simple"):
        load_model(run, network=module())


def test_a_registered_network_names_its_module(tmp_path):
    def tiny(shape, dim):
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), dim))

    NETWORKS.add("tiny", tiny)
    try:
        run = random_run(tmp_path / "run", network="tiny")
        assert run.config.network_module == __name__
        load_model(run)
    finally:
        NETWORKS.remove("tiny")
    with pytest.raises(OptionError, match=f"'tiny'.*--import {__name__}"):
        load_model(Run.open(run.path))
    assert random_run(tmp_path / "other").config.network_module is None
    assert RunConfig(data="mnist-sample").network_module is None
