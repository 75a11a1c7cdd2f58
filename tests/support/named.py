"""The methods of which tests know facts by name; one that is not named here is held to what holds for all."""

NAMED = {
    "APFL", "ClusteredFL", "Ditto", "FactorizedFL", "FedALA", "FedAMP", "FedAvg", "FedBABU", "FedBN", "FedCAC",
    "FedDecomp", "FedDyn", "FedEM", "FedFOMO", "FedFac", "FedLC", "FedNova", "FedPAC", "FedPara", "FedPer", "FedProto",
    "FedProx", "FedRep", "FedRoD", "FedSplit", "FilterDecomp", "LGFedAvg", "Local", "MOON", "PFedGate", "PFedMe",
    "PFedSD", "PerFedAvg", "SCAFFOLD",
}  # fmt: skip
