"""Bold faces of published tables: how many stand."""
