"""The parts of `benchmarks/head.py`."""
