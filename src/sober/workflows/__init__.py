"""Requests to the one evaluation: train, score, select, fit, tune, and studies on one machine or a cluster."""
