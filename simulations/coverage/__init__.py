"""How often intervals for differences of methods hold: few seeds, many methods, several designs."""
