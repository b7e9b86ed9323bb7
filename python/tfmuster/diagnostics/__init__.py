"""Questions about this machine: the doctor, the self-test, and tuning."""
