"""`python -m arcset`, the same as the command `arcset`."""

import sys

from arcset.cli import main
from arcset.launch import leave


def _is_one_of_several() -> bool:
    library = sys.modules.get("torch.distributed")
    return library is not None and library.is_available() and library.is_initialized()


if __name__ == "__main__":
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if _is_one_of_several():
            leave(code)
        sys.exit(code)
