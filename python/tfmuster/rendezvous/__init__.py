"""All tasks present, or a named error in time; afterwards the control channel of the job."""
