"""What the R package calls."""
