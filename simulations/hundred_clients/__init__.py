"""Filter decomposition's Figure 2 and its Table 1 with the paper's clients, work in a round, and rate."""
