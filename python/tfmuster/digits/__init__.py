"""The built-in training on handwritten digits: data, models, and ``train_mnist``."""
