"""Settings shared by all tests: one thread per worker, fixed hypothesis profiles, own records."""

import os
import shutil
import tempfile

import hypothesis
import torch

# Two pytest workers share the cores; more threads than cores would only make them wait.
torch.set_num_threads(1)

hypothesis.settings.register_profile("arcset", deadline=None, derandomize=True)
hypothesis.settings.register_profile(
    "short", hypothesis.settings.get_profile("arcset"), max_examples=30
)
hypothesis.settings.load_profile("arcset")


# Which ONNX files have passed their trial is not to be seen in the cache of whoever runs the tests.
RECORDS = tempfile.mkdtemp(prefix="arcset-onnx-")
os.environ["ARCSET_ONNX_RECORDS"] = RECORDS


def pytest_unconfigure():
    shutil.rmtree(RECORDS, ignore_errors=True)


def pytest_configure(config):
    """Where the long tests are left out, properties are tried on fewer random cases, too."""
    if "not long" in (config.getoption("markexpr") or ""):
        hypothesis.settings.load_profile("short")
