"""A part of FedDecomp's Table 1 with the paper's network, clients and rate."""
