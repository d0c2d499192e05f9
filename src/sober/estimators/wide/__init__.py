"""Fits and sums for wide and sparse codes, from stretches of columns or from the non-zeros alone."""
