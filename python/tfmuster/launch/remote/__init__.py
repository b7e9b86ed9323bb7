"""Workers on other machines: an agent on each, and the launcher's end of its connection."""
