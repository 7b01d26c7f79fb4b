"""How processes of one host find each other and share memory: at abstract unix sockets, whose ends the kernel names."""
