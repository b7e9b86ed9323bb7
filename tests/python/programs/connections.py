"""Break connections of the running process, as a network does that drops idle ones."""

from tfmuster.net.socket_table import ESTABLISHED, borrowed, own_sockets, state_of


def break_connections(port: int) -> int:
    """End all connections from or to a port. Return their number."""
    broken = 0
    for inode, descriptor in own_sockets().items():
        with borrowed(descriptor, inode) as made:
            if made is None or state_of(made) != ESTABLISHED:
                continue
            if port in (made.getsockname()[1], made.getpeername()[1]):
                made.shutdown(2)
                broken += 1
    return broken
