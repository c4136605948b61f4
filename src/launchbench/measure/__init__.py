"""Measure one GPU at one N: which card, what state, the timing, the record."""
