"""Networks: images (B, C, H, W) to embeddings (B, D), by name."""

from arcset.networks.registry import NETWORKS, build_network, network_names

__all__ = ["NETWORKS", "build_network", "network_names"]
