"""Who takes part in a job: ``Cluster``, ``Task``, TF_CONFIG, and every check of them."""
