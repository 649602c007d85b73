"""Values with a grammar of their own, read with pyparsing: device lists, matrix rows, selectors, masks.

A floor of its own, below `parse`, because diagnoses and the environment audit read the same values as the logs do.
"""
