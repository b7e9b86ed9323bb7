"""The chief's side of the rendezvous and of the control channel."""
