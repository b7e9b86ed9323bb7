"""Code that runs in every launched worker, around the user's program."""
