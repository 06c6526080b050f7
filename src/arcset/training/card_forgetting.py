"""What a run has kept of the one that it began from, for the model card."""

from arcset.runs import Run
from arcset.text import sentence
from arcset.training.card_text import code, table
from arcset.training.forgetting import GROUPS, read_forgetting, shown

__all__ = ["forgotten"]


def forgotten(run: Run) -> str:
    """The section: where it began, and old and new identities before and after; or nothing."""
    content = read_forgetting(run)
    if content is None:
        return ""
    heading, *rows = shown(content)
    groups = [f"- {name}: {GROUPS[name]}." for name in content["groups"]]
    said = [
        f"Training began from the run {code(content['before'])}, which is before; after is this "
        "model. Measured on images that were not trained on; the intervals are of 95 %, over "
        "identities."
    ]
    if content["note"]:
        said.append(sentence(content["note"]))
    return "\n\n".join([" ".join(said), table(heading, rows, right=[2, 3]), "\n".join(groups)])
