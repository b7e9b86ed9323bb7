"""Describe the tasks of a job: ``Cluster``, ``Task``, TF_CONFIG, and all checks of them."""
