"""Training: the training loop, cohorts, checkpoints and the data feed."""
