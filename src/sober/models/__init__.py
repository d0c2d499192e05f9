"""Models: a trained model, families of models, and their codes."""
