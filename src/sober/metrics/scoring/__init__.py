"""What users call to score arrays: `score`, `scorer`, `Collector`, comparisons, and each metric as a function."""
