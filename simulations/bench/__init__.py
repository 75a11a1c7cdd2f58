"""Every method on real digits."""
