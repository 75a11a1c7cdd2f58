"""Speed behind a door: who trains what and how; what trains is said in `fedstat.federated`."""
