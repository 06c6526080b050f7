"""Open-set recognition with angular-margin embeddings."""

__version__ = "0.1.0"
