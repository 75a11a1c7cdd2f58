"""What the costs study hands to its chapter."""
