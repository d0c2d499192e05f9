"""What image encoders know about worlds."""
