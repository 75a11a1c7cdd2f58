"""What is known of each method, for choosing one; ``python -m simulations.chooser`` writes it into the package."""
