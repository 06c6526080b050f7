"""Measures of an embedding: pure functions on arrays."""
