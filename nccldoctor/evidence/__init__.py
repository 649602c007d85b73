"""Finds and opens what it is given, and tells what it is by looking; interprets nothing."""
