"""Settings shared by all tests: one thread per worker, a fixed hypothesis profile."""

import hypothesis
import torch

# Two pytest workers share the cores; more threads than cores would only make them wait.
torch.set_num_threads(1)

hypothesis.settings.register_profile("arcset", deadline=None, derandomize=True)
hypothesis.settings.load_profile("arcset")
