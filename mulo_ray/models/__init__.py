"""Families of models that satisfy decoding/interfaces. Knows torch, not Ray."""
