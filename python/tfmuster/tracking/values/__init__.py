"""The values of functions that ran on workers, read without running code of others."""
