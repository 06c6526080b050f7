"""Parts of benchmarks/scale.py, each run in a process of its own."""
