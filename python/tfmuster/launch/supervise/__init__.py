"""The processes of a job on this machine: started, watched, shown, restarted, and ended."""
