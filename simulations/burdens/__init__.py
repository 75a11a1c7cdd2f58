"""What robustness, compression, absence and privacy cost a personal method."""
