"""Run workers on other machines: an agent for each worker there, and a proxy process here."""
