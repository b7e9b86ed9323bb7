"""Begin, end, resume, and remove a run."""
