"""Which rows of a batch are a worker's."""
