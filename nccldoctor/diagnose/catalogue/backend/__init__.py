"""Backends, networks, libraries and their versions: what each rank really runs on."""
