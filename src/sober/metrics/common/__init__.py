"""What metrics share: input arrays as `Codes`, rows, information, correlation, aggregation, and their results."""
