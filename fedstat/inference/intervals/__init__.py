"""Limits for differences of methods: one pair, a family of pairs, equivalence, several looks, the seeds needed."""
