"""Addresses, ports, connections and messages. This package knows nothing of TensorFlow or of jobs."""
