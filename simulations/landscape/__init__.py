"""Trajectories and the landscape of the loss between them."""
