"""FedDecomp beside other methods, its ablations, and how far its two parts move."""
