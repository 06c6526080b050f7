"""One registry per kind of thing: margins, losses, networks, datasets.

A registry knows a package and imports all of its modules at the first question, so that a new
entry is one new file with one decorator, and no list to edit elsewhere. Other installed packages
add theirs as entry points of a group, which are imported when they are asked for.
"""

import difflib
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from arcset.errors import OptionError

T = TypeVar("T")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question with the known name nearest to a wrong one; empty where none is near.

    >>> did_you_mean("epocs", ["batch", "epochs"])
    "did you mean 'epochs'?"
    """
    near = difflib.get_close_matches(str(name), sorted(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> OptionError:
    """The error for a name that nothing is registered under, with the nearest known one."""
    names = sorted(known)
    hint = did_you_mean(name, names)
    intro = f"{hint} Known" if hint else "known"
    more = f" and {len(names) - 30:,} more" if len(names) > 30 else ""
    return OptionError(f"no {kind} is called {name!r}; {intro}: {', '.join(names[:30])}{more}")


def unknown_option(owner: str, option: str, known: Iterable[str]) -> OptionError:
    """The error for an option that a loss, or anything else with options, does not have."""
    names = list(known)
    hint = did_you_mean(option, names)
    takes = hint or f"it takes {', '.join(names) or 'none'}"
    return OptionError(f"{owner} has no option {option!r}; {takes}")


class Registry(Generic[T]):
    """Names to entries of one kind.

    `kind` is the word that error messages use; `package` is imported module by module at the
    first look-up, so that decorators in its files have run by then. `group` names entry points of
    other installed packages; the name of each is that of its entry.

        >>> shapes: Registry[str] = Registry("shape")
        >>> shapes.add("circle", "round")
        >>> shapes["circle"]
        'round'
        >>> shapes["circel"]
        Traceback (most recent call last):
        arcset.errors.OptionError: no shape is called 'circel'; did you mean 'circle'? Known: circle
    """

    def __init__(self, kind: str, package: str | None = None, group: str | None = None) -> None:
        self.kind = kind
        self._package, self._group = package, group
        self._entries: dict[str, T] = {}
        self._installed: dict[str, importlib.metadata.EntryPoint] = {}  # by others, not loaded yet
        self._loaded = package is None

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that enters what it decorates under `name`."""

        def enter(entry: T) -> T:
            self.add(name, entry)
            return entry

        return enter

    def add(self, name: str, entry: T) -> None:
        """Enter one thing; a name that is taken is refused."""
        self._load()
        if name in self._entries:
            raise OptionError(f"a {self.kind} called {name!r} is registered already")
        self._entries[name] = entry

    def remove(self, name: str) -> None:
        """Take an entry out again, for those who register something for a while."""
        self._entries.pop(name, None)

    def names(self) -> list[str]:
        """Every registered name, sorted."""
        self._load()
        return sorted({*self._entries, *self._installed})

    def __contains__(self, name: str) -> bool:
        self._load()
        return name in self._entries or name in self._installed

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._entries and name in self._installed:
            self._entries[name] = self._load_installed(self._installed[name])
        if name not in self._entries:
            raise unknown_name(self.kind, name, self.names())
        return self._entries[name]

    def _load_installed(self, point: importlib.metadata.EntryPoint) -> T:
        try:
            found: T = point.load()
        except Exception as error:
            package = point.dist.name if point.dist else point.value
            raise OptionError(
                f"the {self.kind} {point.name!r} of the package {package} cannot be loaded from "
                f"{point.value}: {error}"
            ) from error
        return found

    def _load(self) -> None:
        if self._loaded or self._package is None:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        if self._group is not None:
            for point in importlib.metadata.entry_points(group=self._group):
                self._installed.setdefault(point.name, point)
