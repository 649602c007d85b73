"""`nccldoctor env`: which variables are set, by whom, which of them do what was meant, and what one of them means."""

import json
import os
from typing import TYPE_CHECKING

import click

from nccldoctor.cli.gravity import fail_on_option, fails
from nccldoctor.cli.output import put
from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.audit import Assignment, Audit
    from nccldoctor.model.finding import Finding


@click.command(name="env")
@click.option("--pid", type=int, metavar="PID", help="The environment of a running process.")
@click.option("--nccl", metavar="VERSION", help="Judge for this version of NCCL, as 2.21.5.")
@click.option("--explain", metavar="NAME", help="Explain a variable.")
@click.option(
    "--json", "json_file", metavar="FILE", help="Write JSON to FILE, `-` for standard output."
)
@fail_on_option()
def command(
    pid: int | None, nccl: str | None, explain: str | None, json_file: str | None, fail_on: str
) -> None:
    """Check the NCCL and PyTorch variables of this environment and of NCCL's configuration files.

    \b
    nccldoctor env
    nccldoctor env --pid 4711 --nccl 2.21.5
    nccldoctor env --explain NCCL_IB_HCA
    """
    if explain is not None:
        click.echo(_explained(explain))
        return
    from nccldoctor.audit import audit, environment_of, installed_version

    if pid is None:
        found = audit(dict(os.environ), version=nccl or installed_version())
    else:
        variables, root = environment_of(pid)
        found = audit(variables, version=nccl, root=root, place=f"the environment of process {pid}")
    if json_file is not None:
        put(_json(found), json_file)
    if json_file != "-":
        click.echo(_text(found, "this shell" if pid is None else f"process {pid}"))
    raise SystemExit(int(fails((f.severity.value for f in found.findings), fail_on)))


def _text(found: "Audit", whose: str) -> str:
    version = (
        f"NCCL {found.version}" if found.version else "no version of NCCL given (--nccl 2.28.9)"
    )
    parts = [f"Variables of {whose}; {version}", _table(found.assignments)]
    if any(a.winner for a in found.assignments) or len({a.place for a in found.assignments}) > 1:
        parts.append(_precedence())
    for line in found.useless:
        parts.append(f"{line.file}:{line.number} sets nothing: {line.text.strip()}")
    if found.buffer_bytes != found.buffer_bytes_default:
        parts.append(
            f"NCCL's buffers take about {found.buffer_bytes >> 20} MiB of GPU memory on each rank for a communicator"
            f" with up to {found.channels} channel{'s' * (found.channels != 1)} ({found.buffer_bytes_default >> 20} MiB by default)."
        )
    parts += [_finding(f) for f in found.findings] or [
        "Nothing here is wrong, as far as nccldoctor knows."
    ]
    return "\n\n".join(parts)


def _table(assignments: tuple["Assignment", ...]) -> str:
    if not assignments:
        return "  None is set: NCCL and PyTorch use their defaults."
    name_width = max(len(a.name) for a in assignments)
    value_width = min(40, max(len(a.value) for a in assignments))
    rows = []
    for one in assignments:
        where = f"{one.place}:{one.line}" if one.line else one.place
        loses = f"  (not used: {one.winner} wins)" if one.winner else ""
        rows.append(f"  {one.name:<{name_width}}  {one.value:<{value_width}}  {where}{loses}")
    return "\n".join(rows)


def _precedence() -> str:
    from nccldoctor.knowledge.precedence import PRECEDENCE

    rows = [f"  {number}. {place}" for number, place in enumerate(PRECEDENCE, 1)]
    return "The first place that sets a variable wins:\n" + "\n".join(rows)


def _finding(finding: "Finding") -> str:
    sure = "" if finding.confidence.value == "high" else f", {finding.confidence.value} confidence"
    lines = [
        f"{finding.code} {finding.name} ({finding.severity.value}{sure})",
        f"  {finding.title}",
    ]
    for line in finding.evidence[:3]:
        if line.file != "--nccl":
            lines += _pointed(line.text)
    steps = [s for s in finding.remedy if not s.startswith("nccldoctor env  ")]
    lines += [f"      -> {step}" for step in steps]
    return "\n".join(lines)


def _pointed(text: str) -> list[str]:
    """An assignment, and below it a caret at the character where its grammar breaks."""
    from nccldoctor.grammars.environment import fault

    name, _, value = text.partition("=")
    wrong = fault(name, value)
    shown = [f"    {text}"]
    if wrong is not None:
        shown.append(f"    {' ' * (len(name) + 1 + wrong.column)}^ {wrong.message}")
    return shown


def _json(found: "Audit") -> str:
    from nccldoctor import __version__
    from nccldoctor.report.json import finding_dict

    document = {
        "schema": 1,
        "tool": {"name": "nccldoctor", "version": __version__},
        "nccl": found.version,
        "variables": [
            {"name": a.name, "value": a.value, "from": a.place, "line": a.line, "won_by": a.winner}
            for a in found.assignments
        ],
        "buffers": {
            "bytes": found.buffer_bytes,
            "default_bytes": found.buffer_bytes_default,
            "channels": found.channels,
        },
        "findings": [finding_dict(f) for f in found.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _explained(name: str) -> str:
    """What is known of a variable. Raises DoctorError, with the nearest real name, when nothing is."""
    from nccldoctor.knowledge.environment import lookup, nearest, owner
    from nccldoctor.knowledge.scopes import DECIDING, PER_HOST, SWITCHES

    known = lookup(name) or lookup(name.upper())
    if known is None:
        other = owner(name)
        if other is not None:
            return f"{name} is read by {other}."
        meant = nearest(name)
        hint = f"did you mean {meant}?" if meant else "`nccldoctor env` lists what is set"
        raise DoctorError(f"No version of NCCL or PyTorch reads {name}; {hint}")
    rows = [
        (
            "read by",
            {"nccl": "NCCL", "rccl": "RCCL", "torch": "PyTorch"}.get(known.vendor, "nobody"),
        ),
        ("since", known.since),
        ("until", known.gone),
        ("deprecated", known.deprecated),
        ("instead", known.replaced_by),
        ("values", known.values),
        ("default", known.default),
        ("source", known.source),
    ]
    lines = [known.name, "", *([f"  {known.about}", ""] if known.about else [])]
    lines += [f"  {title:<10}  {text}" for title, text in rows if text]
    if known.name in SWITCHES:
        switch = SWITCHES[known.name]
        lines.append(f"  {'turns off':<10}  {switch.what} ({switch.cost})")
    if known.name in DECIDING:
        lines.append(f"  {'ranks':<10}  must all have the same value")
    elif known.name in PER_HOST:
        lines.append(f"  {'ranks':<10}  may differ from host to host")
    if known.name in os.environ:
        lines.append(f"  {'here':<10}  {known.name}={os.environ[known.name]}")
    return "\n".join(lines)
