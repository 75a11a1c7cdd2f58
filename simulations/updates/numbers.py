"""What the updates study hands to its chapter."""
