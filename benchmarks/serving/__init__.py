"""What benchmarks/serve.py is made of."""
