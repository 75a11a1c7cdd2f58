"""One client's work, which needs no server: its network, what trains it, its samples and their order."""
