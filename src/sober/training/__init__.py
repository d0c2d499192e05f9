"""Training: the one loop, cohorts, checkpoints and the data that is fed to them."""
