"""FedDecomp trained longer, and taken apart on whole images."""
