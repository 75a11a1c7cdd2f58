"""What personal and shared filters see: the FedFac paper's Figure 10."""
