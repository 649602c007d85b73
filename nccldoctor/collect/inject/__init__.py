"""What a rank carries inside itself under `nccldoctor run`: one file, found by Python through PYTHONPATH."""
