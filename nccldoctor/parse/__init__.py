"""Sources into digests: lines to typed events, collective lines to call tables. Knows one file at a time."""
