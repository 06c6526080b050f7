"""From validation identities to a threshold and a probability that hold on fresh ones."""
