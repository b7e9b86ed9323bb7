"""An execution of steps, and a call of ``fit``."""
