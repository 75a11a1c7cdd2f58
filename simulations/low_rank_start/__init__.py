"""The start and the scale of FedDecomp's low-rank part: dose and response."""
