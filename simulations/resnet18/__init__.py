"""FedFac with the network of its authors’ scripts."""
