"""One file for each format of results that `fedstat.read_results` reads."""
