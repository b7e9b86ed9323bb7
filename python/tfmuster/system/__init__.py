"""The machine at hand: its Python and R, GPUs, processes and versions, and how a process ends."""
