"""Create TensorFlow strategies by name, list them, and train with parameter servers."""
