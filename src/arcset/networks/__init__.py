"""Networks: images (B, C, H, W) or vectors (B, D) to embeddings (B, dim), by name."""

from arcset.networks.layers import network_layers, parameter_count
from arcset.networks.registry import NETWORKS, build_network, network_names

__all__ = ["NETWORKS", "build_network", "network_layers", "network_names", "parameter_count"]
