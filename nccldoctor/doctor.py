"""The pipeline on one page: evidence files → digests → jobs → findings → report."""
