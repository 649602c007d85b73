"""File names as people want to read them: without the folder that all inputs share."""

from nccldoctor.model.report import Report
from nccldoctor.model.source import Line
from nccldoctor.report.words import harmless


def common_folder(report: Report) -> str:
    """The folder that all inputs lie below, with its slash; empty where there is none."""
    paths = [source.path for source in report.inputs]
    if len(paths) < 2:
        return ""
    first, last = min(paths), max(paths)
    alike = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[: first.rfind("/", 0, alike) + 1]


def place(line: Line, folder: str) -> str:
    """`rank0.out:7`; only the file's name where it has no lines."""
    name = harmless(line.file.removeprefix(folder))
    return f"{name}:{line.number}" if line.number else name
