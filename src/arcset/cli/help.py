"""Help as people read it: paragraphs that fill the terminal, and no Python types."""

import inspect
from typing import Any

from typer.core import TyperCommand

__all__ = ["Verb"]


class Verb(TyperCommand):
    """A command whose help joins the lines of each paragraph, and names types only where they tell
    something: a flag takes no value, and an argument's name says what it is."""

    def __init__(self, name: str | None, **options: Any) -> None:
        super().__init__(name, **options)
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, with that for help."""
        found: list[Any] = list(super().get_params(ctx))
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
            elif one.param_type_name == "argument":
                one.display_type_rich = lambda ctx: ""
        return found
