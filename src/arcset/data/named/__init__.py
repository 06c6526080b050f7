"""Named datasets: one file each, which enters itself into the registry."""
