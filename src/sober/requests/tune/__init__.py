"""A search for good hyperparameters without labels."""
