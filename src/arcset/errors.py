"""What arcset raises. Every message is one sentence that says what was wrong and what fits."""


class ArcsetError(Exception):
    """Base of everything arcset raises on purpose."""


class InputError(ArcsetError, ValueError):
    """An array handed in has the wrong shape, type or content."""


class OptionError(ArcsetError, ValueError):
    """A name is unknown, or an option lies outside its range."""


class DataError(ArcsetError):
    """A dataset is missing, torn, or not what its checksum says."""


class RunError(ArcsetError):
    """A run folder is missing, incomplete, or in the way."""


class TrainingError(ArcsetError):
    """Training cannot go on, for instance because the loss is no longer finite."""
