"""Save models, and check files of models before they are read."""
