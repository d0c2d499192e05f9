"""Studies: grids of runs from a file, planned, run and made into the papers' tables."""
