"""Studies: many runs, and what they show together."""
