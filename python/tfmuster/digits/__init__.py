"""Built-in training on handwritten digits: data sets, models, and ``train_mnist``."""
