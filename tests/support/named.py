"""The methods of which tests know facts by name; one that is not named here is held to what holds for all."""

NAMED = {
    "APFL", "ClusteredFL", "Ditto", "FactorizedFL", "FedAMP", "FedAvg", "FedBN", "FedCAC", "FedDecomp", "FedEM",
    "FedFOMO", "FedFac", "FedPAC", "FedPara", "FedPer", "FedProx", "FedRep", "FedRoD", "FedSplit", "FilterDecomp",
    "LGFedAvg", "Local", "PFedGate", "PFedSD", "PerFedAvg", "SCAFFOLD",
}  # fmt: skip
