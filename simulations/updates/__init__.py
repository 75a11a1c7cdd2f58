"""How far updates part on other labels and other images: Factorized-FL's Figures 1b, 1c and 4."""
