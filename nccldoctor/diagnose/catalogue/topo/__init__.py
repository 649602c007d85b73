"""GPUs, links, NICs and CPUs of a host: paths that are missing, slow or unlike those of the other hosts."""
