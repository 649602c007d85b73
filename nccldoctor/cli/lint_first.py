"""What lint is sure of in the script that `nccldoctor run` is about to launch, in a line each."""

from collections.abc import Mapping, Sequence
from pathlib import Path

MOST = 3
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def sure_findings(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """At most three lines, the gravest first; none on other ranks than 0, and none when the script cannot be read."""
    from nccldoctor.lint import check_paths
    from nccldoctor.lint.outputs.text import one_line
    from nccldoctor.model.finding import Confidence, Severity

    script = next((w for w in words if w.endswith(".py") and Path(w).is_file()), None)
    if script is None or any(environ.get(name, "0") != "0" for name in _RANKS):
        return []
    try:
        found = check_paths([script])
    except Exception as error:  # lint must never keep a job from starting
        return [f"lint could not read {script}: {error}"]
    sure = [f for f in found if f.confidence is Confidence.HIGH and f.severity is not Severity.NOTE]
    lines = [f"lint: {one_line(finding)}" for finding in sure[:MOST]]
    if len(sure) > MOST:
        lines.append(f"lint: {len(sure) - MOST} more; nccldoctor lint {script}")
    return lines
