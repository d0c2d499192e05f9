"""Models: a model, families of models, and their codes."""
