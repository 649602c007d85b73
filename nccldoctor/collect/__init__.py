"""Runs, watches, probes and asks live jobs and machines; leaves a bundle behind; judges nothing."""
