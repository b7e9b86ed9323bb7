"""The proof of a first step: it is computed as one process would, too, and compared."""
