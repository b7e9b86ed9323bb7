"""Programs of users, small: each is run by stock Keras in one process and by several workers."""
