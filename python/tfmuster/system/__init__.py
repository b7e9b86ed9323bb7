"""What tfmuster knows about the machine it runs on: Python, R, GPUs, processes, versions, exit codes."""
