"""Files that Keras and TensorFlow write and read."""
