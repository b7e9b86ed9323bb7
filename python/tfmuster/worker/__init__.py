"""What runs inside every launched worker around the user's program."""
