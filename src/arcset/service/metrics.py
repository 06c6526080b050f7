"""Metrics of the service, as Prometheus reads them."""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from arcset import __version__
from arcset.recognition.gallery import Gallery
from arcset.recognition.recognizer import ImageEmbedder

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters of one service, in a registry of their own.

    waiting: how many requests wait for the network, asked whenever somebody reads the figures.
    """

    def __init__(
        self, gallery: Gallery, recognizer: ImageEmbedder, waiting: Callable[[], int]
    ) -> None:
        registry = self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self.requests = Counter(
            "arcset_requests",
            "Requests by route and status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "arcset_request_seconds",
            "How long answers took.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "arcset_batch_images",
            "Images that went through the network together.",
            buckets=_SIZES,
            registry=registry,
        )
        self.in_flight = Gauge(
            "arcset_requests_in_flight", "Requests that are being answered.", registry=registry
        )
        self.refused = Counter(
            "arcset_refused", "Requests that were not done, by code.", ["code"], registry=registry
        )
        for name, meaning, ask in (
            ("arcset_queue_requests", "Requests that wait for the network.", waiting),
            ("arcset_gallery_subjects", "Subjects that are enrolled.", lambda: len(gallery)),
            ("arcset_gallery_samples", "Samples that are enrolled.", lambda: gallery.sample_count),
        ):
            Gauge(name, meaning, registry=registry).set_function(ask)
        model = {"name": recognizer.name, "digest": recognizer.digest, "version": __version__}
        Info("arcset_model", "What makes the embeddings.", registry=registry).info(model)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
