"""Performance: what works, but slower than it could."""
