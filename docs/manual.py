"""Man pages: nccldoctor(1) and one page a command, in man(7) macros."""

from collections.abc import Iterable, Mapping, Sequence

from described import Described

DESCRIPTION = (
    "Reads what NCCL, RCCL and PyTorch leave behind when a multi-GPU job hangs, crashes or crawls, joins it across "
    "ranks, and says which rank, on which host, in which call, why, and what to do next.",
    "Inputs are files, globs, folders, tar files, compressed files, addresses, or - for standard input.",
)
EXIT = (
    ("0", "Nothing at or above --fail-on, or the job's own exit code with run."),
    ("1", "At least one finding at or above it."),
    ("2", "Wrong usage, or nothing could be read; the message says how to mend it."),
    ("124", "With run: the job hung and was ended."),
)
NAMED = (
    ("\\", "\\e"),
    ("-", "\\-"),
    ('"', "\\(dq"),
    ("'", "\\(aq"),
    ("`", "\\(ga"),
    ("…", "..."),
    ("→", "\\(->"),
    ("·", "\\(pc"),
)
VARIABLES = (("NO_COLOR", "When set, no colours on the terminal."),)


def pages(commands: Sequence[Described]) -> Mapping[str, str]:
    """File name → page."""
    return {"nccldoctor.1": _whole(commands)} | {
        f"nccldoctor-{c.name}.1": _page(c, commands) for c in commands
    }


def _whole(commands: Sequence[Described]) -> str:
    lines = _head(
        "nccldoctor", "which rank, on which host, in which call, why, and what to do next"
    )
    lines += [".SH SYNOPSIS", ".B nccldoctor", ".I COMMAND", "[\\fIOPTIONS\\fR]", ".SH DESCRIPTION"]
    lines += [line for text in DESCRIPTION for line in (".PP", _text(text))]
    lines += [".SH COMMANDS", *_terms((f"nccldoctor-{c.name}(1)", c.summary) for c in commands)]
    lines += [".SH OPTIONS", *_terms([("-h, --help", "Show the help and exit."), ("-V, --version", "Show the version and exit.")])]  # fmt: skip
    lines += [".SH EXIT STATUS", *_terms(EXIT), ".SH ENVIRONMENT", *_terms(VARIABLES)]
    return "\n".join(lines) + "\n"


def _page(command: Described, commands: Sequence[Described]) -> str:
    lines = _head(f"nccldoctor-{command.name}", _uncapitalised(command.summary))
    lines += [".SH SYNOPSIS", ".B " + _text(command.usage), ".SH DESCRIPTION"]
    for verbatim, text in command.blocks:
        lines += [".PP", ".nf", _text(text), ".fi"] if verbatim else [".PP", _text(text)]
    lines += [".SH OPTIONS", *_terms((o.names, o.help) for o in command.options)]
    others = ["nccldoctor", *(f"nccldoctor-{c.name}" for c in commands if c.name != command.name)]
    last = len(others) - 1
    lines += [".SH SEE ALSO"]
    lines += [f".BR {_text(name)} (1){',' if n < last else ''}" for n, name in enumerate(others)]
    return "\n".join(lines) + "\n"


def _head(name: str, what: str) -> list[str]:
    title = f'.TH "{name.upper()}" "1" "" "nccldoctor" "User Commands"'
    return [title, ".SH NAME", f"{_text(name)} \\- {_text(what)}"]


def _terms(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [line for term, text in pairs for line in (".TP", ".B " + _text(term), _text(text))]


def _text(text: str) -> str:
    """Escaped for roff; a line never starts with a control character."""
    escaped = text
    for character, name in NAMED:
        escaped = escaped.replace(character, name)
    return "\n".join("\\&" + s if s.startswith(".") else s for s in escaped.splitlines())


def _uncapitalised(summary: str) -> str:
    return summary[:1].lower() + summary[1:].rstrip(".")
