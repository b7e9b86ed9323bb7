"""What takes a job to where it runs: one file for each engine."""
