"""Names of a package that are imported when somebody asks for them (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def import_later(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A `__getattr__` for `package`: by module, the names that come from it at their first use.

    torch takes a second to import and half a gigabyte to install; what only measures, decides or
    shows must not pay for it because a neighbour needs it.

        >>> import_later("arcset", {"arcset.text": ["plural"]})("plural")(2, "image")
        '2 images'
    """

    module_of = {name: module for module, members in names.items() for name in members}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(module_of[name])
        return getattr(module, name, module)  # a module stands for itself

    return get
