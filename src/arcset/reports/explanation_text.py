"""One image walked through a run, in sentences."""

from arcset.reports.steps import Explanation

__all__ = ["conclusion", "introduction", "probability"]


def introduction(found: Explanation) -> list[str]:
    """What is explained and by what, what was done to it, and its embedding."""
    settings = ", ".join(
        f"{key} {value if isinstance(value, str) else f'{value:g}'}"
        for key, value in found.settings.items()
    )
    how = f"{found.loss}: {settings}" if settings else found.loss
    shown = ", ".join(f"{value:.4g}" for value in found.embedding[:8])
    more = f", … {len(found.embedding)} numbers" if len(found.embedding) > 8 else ""
    return [
        f"{found.subject.source}, through {found.run} ({how})",
        *(f"note: {note}" for note in found.subject.notes),
        f"embedding x = ({shown}{more}), ‖x‖ = {found.norm:.4g}",
    ]


def conclusion(found: Explanation) -> list[str]:
    """What comes of it; the first sentence is the verdict."""
    if not found.steps:
        most = found.neighbours[found.ranking[0]].name
        return [
            f"{found.subject.source}, is on average most similar to {most!r}",
            f"{found.loss} learns distances between samples and has no class centers: there are no "
            "logits and no probabilities, so it is compared with the test samples of each class",
        ]
    lines = [_verdict(found)]
    if found.subject.part == "unseen":
        nearest = sorted(found.steps, key=lambda step: step.angle)[:3]
        near = ", ".join(f"{step.name} at {step.angle:.1f}°" for step in nearest)
        lines.append(f"nearest centers: {near}")
    margin = found.margin
    if margin is not None:
        as_if = "beyond 180°" if margin.as_if is None else f"{margin.as_if:.2f}°"
        lines.append(
            f"the margin moves the target's cosine from {margin.cosine:.4f} "
            f"(θ = {margin.angle:.2f}°) to {margin.margined:.4f}, as if θ were {as_if}"
        )
    elif found.subject.target is not None:
        lines.append(f"{found.loss} has no margin here: training sees the same scores")
    if found.cross_entropy is not None:
        added = f", before the term that {found.loss} adds" if "weight" in found.settings else ""
        lines.append(f"in training it would cost −log p = {found.cross_entropy:.4f}{added}")
    return lines


def _verdict(found: Explanation) -> str:
    best = found.ranking[0]
    step, subject = found.steps[best], found.subject
    sure = probability(step.probability)
    verdict = f"{subject.source}, is named {step.name!r} with probability {sure}"
    if subject.part == "unseen":
        return f"{verdict}: wrong, as every name it could give"
    if subject.target is None:
        return verdict
    return verdict + (
        ", rightly" if best == subject.target else f": wrong, it is {subject.truth!r}"
    )


def probability(value: float) -> str:
    """Four digits; where they would say 0 or 1, the order of magnitude or a bound instead.

    >>> probability(0.87654321), probability(2e-7), probability(1 - 2e-7)
    ('0.8765', '2e-07', '> 0.9999')
    """
    if value >= 0.99995:
        return "> 0.9999"
    return f"{value:.4f}" if value >= 5e-5 else f"{value:.0e}"
