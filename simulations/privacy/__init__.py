"""What messages give away: FedDecomp's Table 7."""
