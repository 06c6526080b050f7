"""The one list of augmentations, and how a text names one of them."""

from arcset.data.augment.base import Augmentation
from arcset.errors import OptionError
from arcset.registry import Registry, unknown_option

__all__ = ["AUGMENTATIONS", "augmentation_names", "parse_augmentation"]

AUGMENTATIONS: Registry[type[Augmentation]] = Registry("augmentation", "arcset.data.augment")


def augmentation_names() -> list[str]:
    """Every registered augmentation, sorted.

    >>> augmentation_names()
    ['affine', 'blur', 'colour', 'crop', 'elastic', 'erasing', 'flip', 'noise', 'stroke']
    """
    return AUGMENTATIONS.names()


def parse_augmentation(text: str) -> Augmentation:
    """An augmentation from NAME or NAME:OPTION=VALUE:…; what is not written takes its default.

    >>> parse_augmentation("elastic:strength=0.1")
    Elastic(strength=0.1, points=4, fill='edge')
    >>> parse_augmentation("noise:sigma=0.1")
    Traceback (most recent call last):
    arcset.errors.OptionError: noise has no option 'sigma'; it takes strength

    Raises:
        OptionError: an unknown name or option, an option written twice, or a value out of range.
    """
    name, *settings = (part.strip() for part in text.split(":"))
    kind = AUGMENTATIONS[name]
    known = kind.options()
    options: dict[str, float | int | str] = {}
    for setting in settings:
        option, equals, value = (part.strip() for part in setting.partition("="))
        if not equals:
            raise OptionError(
                f"{text!r}: an option is written {name}:OPTION=VALUE, not {setting!r}"
            )
        if option not in known:
            raise unknown_option(name, option, known)
        if option in options:
            raise OptionError(f"{text!r} gives {option} twice; keep one of them")
        options[option] = known[option].parsed(name, value)
    return kind(**options)
