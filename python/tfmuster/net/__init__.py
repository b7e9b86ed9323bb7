"""Addresses, ports, connections and messages: sockets and bytes, and nothing of TensorFlow or of jobs."""
