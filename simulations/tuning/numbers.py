"""What the tuning study hands to its chapter."""
