"""What is imported from arcset, with types and defaults, is as it was recorded.

Types are compared by their names: a class may move to another module, and is called the same.
"""

import inspect
import typing

import pytest

import arcset
from arcset import evaluation
from contract.outside import attributes, members, registered, signature
from contract.recording import recorded
from support.random_runs import random_run


def described(module):
    """Functions by what they take, errors by their bases, classes by what they have."""
    found = {}
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            found[name] = signature(value)
        elif inspect.isclass(value) and issubclass(value, Exception):
            found[name] = [base.__name__ for base in value.__bases__]
        elif inspect.isclass(value):
            found[name] = members(value)
        else:
            found[name] = type(value).__name__
    return found


def returned(function):
    """The class of what a function returns, or of its items where there are several."""
    return single(typing.get_type_hints(function)["return"])


def single(annotation):
    return typing.get_args(annotation)[0] if typing.get_args(annotation) else annotation


@pytest.mark.parametrize("module", [arcset, evaluation], ids=lambda module: module.__name__)
def test_public_names_keep_their_types_and_defaults(module):
    found = described(module)
    if module is arcset:
        found["Client"]["()"] = signature(arcset.Client.__init__)
    recorded(f"python_names-{module.__name__}", found)


def test_answers_keep_their_fields():
    match = returned(arcset.Gallery.identify)
    answers = [
        match,
        single(typing.get_type_hints(match)["candidates"]),
        returned(arcset.Recognizer.verify),
        returned(arcset.Recognizer.embed_files),
        returned(arcset.Gallery.working_point),
        returned(arcset.Gallery.subjects),
        returned(arcset.Gallery.samples),
        returned(arcset.suspect_samples),
        returned(arcset.build_loss),
    ]
    recorded("python_names-answers", {kind.__name__: members(kind) for kind in answers})


def test_what_is_opened_keeps_its_attributes(tmp_path):
    recognizer = arcset.Recognizer.load(random_run(tmp_path / "run").path, device="cpu")
    with arcset.Gallery.open(tmp_path / "people.db", recognizer) as gallery:
        found = {"Recognizer": attributes(recognizer), "Gallery": attributes(gallery)}
    loss = arcset.build_loss("arcface", dim=4, classes=3)
    found["loss"] = {name: type(getattr(loss, name)).__name__ for name in ("dim", "classes")}
    recorded("python_names-attributes", found)


def test_losses_keep_their_options_and_defaults():
    found = {name: arcset.loss_options(name) for name in arcset.loss_names()}
    recorded("python_names-losses", found, tolerance=0)


def test_what_can_be_named_keeps_its_name():
    recorded("python_names-registered", registered(), tolerance=0)
