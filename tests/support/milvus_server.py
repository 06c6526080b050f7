"""A real Milvus for tests, or a clear line where it cannot be had."""

import importlib.util
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "tools" / "milvus_server.py"
_SPEC = importlib.util.spec_from_file_location("milvus_server_tool", _PATH)
_TOOL = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_TOOL)


@contextmanager
def milvus_server(folder):
    """The address of a server, as `milvus://127.0.0.1:PORT`, and the number of its process."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(_TOOL.running_server(folder))
        except OSError as error:
            pytest.skip(str(error))
        yield found
