"""Before anything is trained: how much memory, traffic and time a step will take, and what fits."""
