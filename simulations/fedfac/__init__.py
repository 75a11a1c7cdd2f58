"""FedFac beside other methods, its shared units beside random ones, and new clients."""
