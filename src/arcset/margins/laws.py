"""The common laws. Each margin and each loss declares those it obeys; one suite tests them all."""

from enum import Enum

__all__ = ["Law"]


class Law(Enum):
    """What a loss promises. The value is the promise in words, as help and tests print it."""

    GRADIENT = "gradients agree with finite differences in float64"
    FINITE = "value and gradients are finite in every dtype, at every corner"
    REFERENCE = "the value equals a slow reference that works sample by sample"
    ROUND_TRIP = "a state dict keeps the centers"
    PLAIN_LOGITS = "logits(x) carries no margin"
    TARGET_ONLY = "the margin touches the target logit and no other"
    MONOTONE = "the target logit falls as the angle grows"
    CONTINUOUS = "the target logit has no jump"
    NEUTRAL = "with a neutral margin it equals normface"
    SCALE_FREE = "the length of an embedding changes nothing"
