"""Which hidden units are shared: FedFac's Figure 6."""
