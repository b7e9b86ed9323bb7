"""TensorFlow's strategies by name, the table of them, and training with parameter servers."""
