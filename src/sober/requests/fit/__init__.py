"""Pictures in, one encoder out."""
