"""Slow, obvious versions of every loss: plain Python floats, one sample at a time."""

import math

import torch

from arcset.margins import Sample


def vectors(tensor):
    return [[float(value) for value in row] for row in tensor.detach().double()]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cosine(a, b):
    lengths = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))
    return max(-1.0, min(1.0, dot(a, b) / lengths)) if lengths > 0 else 0.0


def minus_log_softmax(scores, target):
    highest = max(scores)
    return highest + math.log(sum(math.exp(score - highest) for score in scores)) - scores[target]


def margin_softmax(loss, embeddings, labels, scale=None):
    """At the loss's scale, or at the one it had before a step in which the margin found another."""
    scale = loss.scale if scale is None else scale
    counted = [i for i, y in enumerate(labels.tolist()) if y != loss.ignore_index]
    rows, classes = vectors(embeddings[counted]), labels[counted].tolist()
    centers = vectors(loss.head.weight)
    owned = [centers[j : j + loss.subcenters] for j in range(0, len(centers), loss.subcenters)]
    biases = [0.0] * len(owned) if loss.head.bias is None else loss.head.bias.tolist()
    cosines = [[max(cosine(x, center) for center in own) for own in owned] for x in rows]
    targets = [row[y] for row, y in zip(cosines, classes, strict=True)]
    losses = []
    for i, (x, y) in enumerate(zip(rows, classes, strict=True)):
        sample = Sample(
            label=y,
            norm=math.sqrt(dot(x, x)),
            step=int(loss.step),
            position=i,
            rank=sum(other < targets[i] for other in targets),
            size=len(rows),
        )
        target = loss.margin.reference(math.acos(targets[i]), sample)
        wrong = sorted((c for j, c in enumerate(cosines[i]) if j != y), reverse=True)
        floor = wrong[min(max(loss.margin.nearest, 1), len(wrong)) - 1] if wrong else 0.0
        scores = [
            scale * (target if j == y else loss.margin.negative_reference(c, target, floor))
            for j, c in enumerate(cosines[i])
        ]
        scores = [score + bias for score, bias in zip(scores, biases, strict=True)]
        share = loss.label_smoothing / len(scores)
        smooth = sum(minus_log_softmax(scores, j) for j in range(len(scores)))
        value = (1 - loss.label_smoothing) * minus_log_softmax(scores, y) + share * smooth
        losses.append(value + loss.margin.penalty_reference(sample))
    return sum(losses) / len(losses) if losses else 0.0


def softmax(loss, embeddings, labels):
    centers = vectors(loss.weight)
    biases = [0.0] * len(centers) if loss.bias is None else loss.bias.tolist()
    total = 0.0
    for x, y in zip(vectors(embeddings), labels.tolist(), strict=True):
        scores = [dot(x, w) + b for w, b in zip(centers, biases, strict=True)]
        total += minus_log_softmax(scores, y)
    return total / len(labels)


def center(loss, embeddings, labels):
    means = vectors(loss.means)
    total = 0.0
    for x, y in zip(vectors(embeddings), labels.tolist(), strict=True):
        total += sum((a - b) ** 2 for a, b in zip(x, means[y], strict=True))
    return reference(loss.base, embeddings, labels) + loss.weight / 2 * total / len(labels)


def intra(loss, embeddings, labels):
    centers = vectors(loss.trained_centers())
    rows = zip(vectors(embeddings), labels.tolist(), strict=True)
    angles = [math.acos(cosine(x, centers[y])) for x, y in rows]
    base = reference(loss.base, embeddings, labels)
    return base + loss.weight * sum(angles) / len(angles) / math.pi


def inter(loss, embeddings, labels):
    centers = vectors(loss.trained_centers())
    means = []
    for y in labels.tolist():
        others = [math.acos(cosine(centers[y], other)) for j, other in enumerate(centers) if j != y]
        means.append(sum(others) / len(others) if others else 0.0)
    base = reference(loss.base, embeddings, labels)
    return base - loss.weight * sum(means) / len(means) / math.pi


def triplet(loss, embeddings, labels):
    rows, classes = vectors(embeddings), labels.tolist()
    hinges = []
    for i, anchor in enumerate(rows):
        angles = [math.acos(cosine(anchor, row)) for row in rows]
        same = [angles[j] for j in range(len(rows)) if j != i and classes[j] == classes[i]]
        other = [angles[j] for j in range(len(rows)) if classes[j] != classes[i]]
        if same and other:
            hinges.append(max(0.0, max(same) - min(other) + loss.margin))
    return sum(hinges) / len(hinges) if hinges else 0.0


BY_CLASS = {
    "MarginSoftmax": margin_softmax,
    "Softmax": softmax,
    "Center": center,
    "Intra": intra,
    "Inter": inter,
    "Triplet": triplet,
}


def reference(loss, embeddings, labels):
    """The slow value of any loss. A new kind of loss enters its own above."""
    with torch.no_grad():
        return BY_CLASS[type(loss).__name__](loss, embeddings, labels)
