"""TensorFlow's servers, strategies, and scopes."""
