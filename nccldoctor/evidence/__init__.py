"""Finds and opens what it is given, and tells its kind by looking; interprets nothing."""
