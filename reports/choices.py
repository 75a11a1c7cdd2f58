"""What is chosen by hand: which studies a quick report runs anew, and what its readers see first.

A study that is named nowhere here has its chapter all the same.
"""

#: What a report at quick scale runs anew, and for how many seconds on two cores; committed tables make the other
#: chapters. Chosen for what they say in that time, without data that have to be fetched.
QUICK = {
    "split": 75, "agreement": 30, "aggregation": 20, "wide": 36, "complexity": 5, "strongly_convex": 9, "units": 15,
}  # fmt: skip
#: Studies and claims, from what is worth most to a reader; studies that are not named here come after those that are.
RANKING = (
    "bench", "fedfac", "phase", "resnet18", "resnet8", "feddecomp", "longer", "low_rank_start", "privacy",
    "filterdecomp", "hundred_clients", "landscape", "split", "decompositions", "agreement", "FS-27", "factorized",
    "factorized_parts", "wide", "aggregation", "FD-12", "updates", "DC-07", "strongly_convex", "FF-11", "tuning",
    "costs", "complexity", "stability", "resampling", "units", "filters",
)  # fmt: skip
