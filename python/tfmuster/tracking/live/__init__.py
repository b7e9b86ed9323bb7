"""What a run and its tasks do now."""
