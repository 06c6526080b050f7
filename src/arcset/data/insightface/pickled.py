"""Plain data out of a pickle, without unpickling: nothing that the file names is looked up or run.

A pickle is a program for a small stack machine, and one of its commands calls any function of any
module. The machine here knows the commands that build tuples, lists, bytes, text, numbers, and no
others. Functions are mere names to it; six of them, which Python and numpy write for bytes and for
arrays of bytes, it recognizes, and makes the data itself.

The objects that it makes are shared, never copied, so that lists of lists of lists stay as small as
the file that describes them. Where bytes must be made anew, it keeps count.
"""

import codecs
import io
import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Array", "RefusedError", "read_pickled"]

_MARK = object()
_OPCODES = {opcode.code: opcode for opcode in pickletools.opcodes}

# Each command makes one object at most, of some 100 bytes: one per this many bytes of the file, and
# these many besides. Encoded images are far longer.
_BYTES_PER_COMMAND, _FEW_COMMANDS = 8, 1 << 16

# As `module.name`, in the words of Python 2 and numpy 1, whoever wrote the file.
_RENAMED = {"builtins.": "__builtin__.", "numpy._core.": "numpy.core."}
_NAMES = frozenset(
    {
        "_codecs.encode",
        "__builtin__.bytes",
        "numpy.ndarray",
        "numpy.dtype",
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy.core.numeric._frombuffer",
    }
)
_KINDS = {
    **dict.fromkeys(("u1", "|u1", "uint8"), "uint8"),
    **dict.fromkeys(("b1", "|b1", "?", "bool"), "bool"),
}


class RefusedError(Exception):
    """The pickle holds more than plain data, or is damaged; says why, to stand after a colon."""


@dataclass(frozen=True)
class _Name:
    """What the file calls a function or a class."""

    text: str


@dataclass(frozen=True)
class _Kind:
    """The element type of an array, one byte wide: "uint8" or "bool"."""

    text: str


@dataclass
class Array:
    """A numpy array as the file describes it: "uint8" or "bool", shape, and elements.

    The order of the elements is not kept: it says something only beyond one axis.
    """

    kind: str = ""
    shape: tuple[int, ...] = ()
    elements: bytes | None = None

    def fill(self, kind: _Kind, shape: Any, elements: bytes) -> None:
        """Sets all three; raises `RefusedError` where they do not fit."""
        count = 1
        for length in shape if len(shape) <= 32 else (None,):
            if not isinstance(length, int) or not 0 <= length <= max(len(elements), 1):
                raise RefusedError("it holds an array with an impossible shape")
            count *= length
        if count != len(elements):
            raise RefusedError("it holds an array whose shape and elements do not fit")
        self.kind, self.shape, self.elements = kind.text, tuple(shape), elements


def read_pickled(content: bytes) -> object:
    """The object in a pickle of any protocol, 0 to 5, of Python 2 or 3.

    Made of tuples, lists, bytes (also for Python 2's str), str, bool, int, None and `Array`.
    Raises `RefusedError` for everything else. Takes memory of some 16 times the content at most.

        >>> import pickle
        >>> read_pickled(pickle.dumps(([b"one", b"two"], [True])))
        ([b'one', b'two'], [True])
        >>> read_pickled(pickle.dumps(print))
        Traceback (most recent call last):
        arcset.data.insightface.pickled.RefusedError: it asks for builtins.print, and nothing is run
    """
    return _Machine(content).run()


class _Machine:
    """The stack, the memo, and one method or line per command."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._made = 0  # bytes that are copies of what stands in the file

    def run(self) -> object:
        most = _FEW_COMMANDS + len(self._content) // _BYTES_PER_COMMAND
        try:
            for count, (name, argument) in enumerate(_commands(self._content)):
                if count > most:
                    raise RefusedError(f"it has more than {most:,} commands, too many for its size")
                if name == "STOP":
                    return self._stack.pop()
                self._do(name, argument)
        except (ValueError, IndexError, KeyError) as error:
            # What the parts of Python raise for damaged arguments, an empty stack, a bare memo.
            raise RefusedError("it is damaged") from error
        raise RefusedError("it is cut short")

    def _do(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _DATA:
            stack.append(_DATA[name](argument))
        elif name in {"PROTO", "FRAME"}:
            pass
        elif name in {"PUT", "BINPUT", "LONG_BINPUT"}:
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in {"GET", "BINGET", "LONG_BINGET"}:
            stack.append(self._memo[argument])
        elif name in {"TUPLE1", "TUPLE2", "TUPLE3"}:
            stack.append(tuple(self._top(int(name[-1]))))
        elif name == "TUPLE":
            stack.append(tuple(self._marked()))
        elif name == "LIST":
            stack.append(self._marked())
        elif name == "APPEND":
            self._extend(self._top(1))
        elif name == "APPENDS":
            self._extend(self._marked())
        elif name == "GLOBAL":
            stack.append(_known(argument.replace(" ", ".", 1)))
        elif name == "STACK_GLOBAL":
            module, attribute = self._top(2)
            stack.append(_known(f"{_text(module)}.{_text(attribute)}"))
        elif name == "REDUCE":
            called, arguments = self._top(2)
            stack.append(self._made_by(called, arguments))
        elif name == "BUILD":
            thing, state = self._top(2)
            stack.append(_completed(thing, state))
        elif name == "INST":
            _known(argument.replace(" ", ".", 1))
            raise RefusedError("it asks for an object, and nothing is run")
        else:
            raise RefusedError(f"it holds {name}, which no such file needs")

    def _top(self, count: int) -> list[Any]:
        """The topmost `count` objects, taken off."""
        taken = self._stack[-count:]
        if len(taken) < count or any(item is _MARK for item in taken):
            raise RefusedError("it is damaged")
        del self._stack[-count:]
        return taken

    def _marked(self) -> list[Any]:
        """Everything above the topmost mark, taken off with the mark."""
        place = len(self._stack) - 1
        while self._stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise RefusedError("it is damaged")
        taken = self._stack[place + 1 :]
        del self._stack[place:]
        return taken

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise RefusedError("it appends to what is no list")
        target.extend(items)

    def _made_by(self, called: object, arguments: object) -> object:
        """What one of the known functions would return."""
        match called, arguments:
            case _Name("_codecs.encode"), (str(text), "latin1"):
                return self._counted(text.encode("latin-1"))
            case _Name("__builtin__.bytes"), ():
                return b""
            case _Name("numpy.dtype"), (str() | bytes() as code, *_):
                return _kind(code)
            case _Name("numpy.core.multiarray._reconstruct"), (_Name("numpy.ndarray"), (0,), _):
                return Array()
            case _Name("numpy.core.multiarray.scalar"), (_Kind(kind), bytes(value)):
                if len(value) == 1:
                    return bool(value[0]) if kind == "bool" else value[0]
            case _Name("numpy.core.numeric._frombuffer"), (
                bytes(elements),
                _Kind() as kind,
                tuple(shape),
                _,
            ):
                made = Array()
                made.fill(kind, shape, elements)
                return made
        name = called.text if isinstance(called, _Name) else "what is no function"
        raise RefusedError(f"it asks for {name} as no such file does, and nothing is run")

    def _counted(self, made: bytes) -> bytes:
        self._made += len(made)
        if self._made > len(self._content):
            raise RefusedError("it makes more bytes than it holds")
        return made


def _commands(content: bytes) -> Iterator[tuple[str, Any]]:
    """The commands by pickletools' names, with their arguments, as `pickletools.genops` has them.

    That function takes Python 2's quoted strings for ASCII, and those of images are none.
    """
    stream = io.BytesIO(content)
    while code := stream.read(1):
        opcode = _OPCODES.get(code.decode("latin-1"))
        if opcode is None:
            raise RefusedError(f"it holds the byte {code.hex()} where a pickle has a command")
        if opcode.name == "STRING":
            yield opcode.name, _unquoted(stream.readline())
        else:
            yield opcode.name, None if opcode.arg is None else opcode.arg.reader(stream)


def _unquoted(line: bytes) -> bytes:
    """The bytes of a string as Python 2 quotes it, with escapes."""
    quoted = line.rstrip()
    if len(quoted) < 2 or quoted[:1] not in b"'\"" or quoted[-1:] != quoted[:1]:
        raise RefusedError("it is damaged")
    return bytes(codecs.escape_decode(quoted[1:-1])[0])


#: Commands that push one object, made of their argument alone.
_DATA: dict[str, Callable[[Any], Any]] = {
    "MARK": lambda _: _MARK,
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "STRING": lambda found: found,
    # pickletools gives Python 2's strings as text of the characters 0 to 255.
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING"), lambda found: found.encode("latin-1")),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), bytes),
    **dict.fromkeys(
        ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), lambda found: found
    ),
    **dict.fromkeys(
        ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), lambda found: found
    ),
}


def _known(name: str) -> _Name:
    """The name of a known function; raises `RefusedError` for any other."""
    full = name
    for new, old in _RENAMED.items():
        full = old + full.removeprefix(new) if full.startswith(new) else full
    if full not in _NAMES:
        shown = name[:100] if name.isprintable() else ascii(name[:100])
        raise RefusedError(f"it asks for {shown}, and nothing is run")
    return _Name(full)


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise RefusedError("it is damaged")
    return name


def _kind(code: str | bytes) -> _Kind:
    text = code.decode("latin-1") if isinstance(code, bytes) else code
    if text not in _KINDS:
        raise RefusedError(f"it holds numpy data of type {text[:20]}, and not of bytes")
    return _Kind(_KINDS[text])


def _completed(thing: object, state: object) -> object:
    """`thing` after numpy's `__setstate__` with this state."""
    match thing, state:
        case _Kind(), (_, "|" | b"|", None, None, None, *_):  # a byte has no byte order
            return thing
        case Array(), (_, tuple(shape), _Kind() as kind, _, bytes(elements)):
            thing.fill(kind, shape, elements)
            return thing
    raise RefusedError("it sets the state of an object as no such file does, and nothing is run")
