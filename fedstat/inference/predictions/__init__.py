"""Predictions, not only scores: metrics, intervals over patients and over runs, tables and pictures."""
