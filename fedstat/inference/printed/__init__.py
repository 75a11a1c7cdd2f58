"""Tables of papers, read and judged: which bold faces stand."""
