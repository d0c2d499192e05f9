"""Criteria that rank models without labels."""
