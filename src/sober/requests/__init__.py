"""What people ask of Sober: train, score, select, fit, tune, study, compare. Each is a request to the engine."""
