"""The nouns: frozen dataclasses over the standard library, shared by every floor."""
