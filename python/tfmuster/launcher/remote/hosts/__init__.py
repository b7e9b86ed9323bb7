"""The hosts of a job: which there are, and whether they can take part."""
