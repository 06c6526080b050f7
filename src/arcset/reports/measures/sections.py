"""The sections of an evaluation's report that have pictures, each for all models that have it."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from arcset.evaluation.assessment import Assessment
from arcset.evaluation.bootstrap import Difference
from arcset.reports.measures.angles import angles_picture
from arcset.reports.measures.captions import CAPTIONS
from arcset.reports.measures.differences import difference_picture
from arcset.reports.measures.few_shot import few_shot_picture
from arcset.reports.measures.identification import identification_picture
from arcset.reports.measures.retrieval import retrieval_picture
from arcset.reports.measures.verification import verification_picture
from arcset.reports.report.pieces import Section

__all__ = ["comparison_section", "measure_sections"]

_TITLES = {
    "verification": "Same or different?",
    "identification": "Who is it, if anyone?",
    "retrieval": "Search by example",
    "few_shot": "Named after a few examples",
    "angles": "How tight classes are, and how far apart",
}


def measure_sections(assessments: Mapping[str, Assessment]) -> dict[str, Section]:
    """A section per part that at least one model has, by the part's name."""
    among = list(assessments)
    figures: dict[str, Figure] = {}
    pairs = {label: a.verification for label, a in assessments.items() if a.verification}
    if pairs:
        figures["verification"] = verification_picture(pairs, among=among)
    found = {label: a.identification for label, a in assessments.items() if a.identification}
    if found:
        figures["identification"] = identification_picture(found, among=among)
    searched = {label: a.retrieval for label, a in assessments.items() if a.retrieval}
    if searched:
        figures["retrieval"] = retrieval_picture(searched, among=among)
    shots = {label: a.few_shot for label, a in assessments.items() if a.few_shot}
    if shots:
        figures["few_shot"] = few_shot_picture(shots, among=among)
    averages = {label: a.angles for label, a in assessments.items() if a.angles}
    own = {label: a.own_angles for label, a in assessments.items() if a.own_angles is not None}
    other = {
        label: a.other_angles for label, a in assessments.items() if a.other_angles is not None
    }
    if averages or own:
        figures["angles"] = angles_picture(own, other, averages, among=among)
    return {
        name: Section(_TITLES[name], [figure], *CAPTIONS[name]) for name, figure in figures.items()
    }


def comparison_section(differences: Mapping[str, Sequence[Difference]]) -> dict[str, Section]:
    """The section `difference`, a figure per comparison; none where nothing is compared."""
    compared = {label: items for label, items in differences.items() if items}
    if not compared:
        return {}
    figures = [difference_picture({label: items}) for label, items in compared.items()]
    captions = CAPTIONS["difference"]
    return {"difference": Section("Which is better?", figures, *captions, alts=list(compared))}
