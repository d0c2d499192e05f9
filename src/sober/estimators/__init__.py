"""Fits that metrics and criteria share: trees, linear models, lassos, mixtures. Plain arrays in and out."""
