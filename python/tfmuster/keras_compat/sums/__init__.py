"""One tensor from all workers."""
