"""Wait until all tasks are present, or fail in time with the cause; afterwards, report how tasks end."""
