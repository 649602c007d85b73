"""Networks: interfaces, sockets, InfiniBand and RoCE."""
