"""Start, watch, show, restart and end the processes of a job on this machine."""
