"""Where datasets are kept on this machine."""

import os
from pathlib import Path

__all__ = ["cache_folder", "data_folders"]


def cache_folder() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/arcset`, or `~/.cache/arcset`."""
    home = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative path there is to be ignored.
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    return base / "arcset"


def data_folders(name: str) -> tuple[Path, ...]:
    """Where the dataset `name` is looked for, in this order: `$ARCSET_DATA/name`, the cache."""
    cached = cache_folder() / name
    given = os.environ.get("ARCSET_DATA")
    return (Path(given) / name, cached) if given else (cached,)
