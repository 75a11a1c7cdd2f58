"""What the parts of Factorized-FL contribute."""
