"""Facts as data, each with its source; no logic beyond looking them up."""
