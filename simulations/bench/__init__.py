"""All methods on one bench: three data sets, budgets told apart, every method tuned by one rule."""
