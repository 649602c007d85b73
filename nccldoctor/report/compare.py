"""Two reports → what changed between them: only differences, the grave ones first."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nccldoctor.report.summary import duration
from nccldoctor.report.words import plural, size, spans

ABSENT = "not there"

SAME = 0.05
"""Bandwidths that differ by less than this part are no difference."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not as before; `after` or `before` is ABSENT where one side lacks it."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of change, with a title for people."""

    title: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from `before` to `after`, both the dicts of the JSON report."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    names: tuple[str, str]
    sections: tuple[Section, ...]

    @property
    def new_findings(self) -> tuple[Mapping[str, Any], ...]:
        """Findings of `after` whose code `before` has not."""
        known = {f["code"] for f in self.before["findings"]}
        return tuple(f for f in self.after["findings"] if f["code"] not in known)


def compare(
    before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str] = ("A", "B")
) -> Comparison:
    """The comparison of two reports as `to_dict` makes them; jobs are compared in their order."""
    sections = [
        Section("Verdict", tuple(_verdict(before, after))),
        Section("Findings", tuple(_findings(before, after))),
    ]
    empty: Mapping[str, Any] = {}
    for number in range(max(len(before["jobs"]), len(after["jobs"]))):
        pair = [r["jobs"][number] if number < len(r["jobs"]) else empty for r in (before, after)]
        suffix = f", job {number + 1}" if number else ""
        for title, look in _LOOKS.items():
            sections.append(Section(title + suffix, tuple(_both(look, pair[0], pair[1]))))
        sections.append(Section("Bandwidth" + suffix, tuple(_bandwidth(pair[0], pair[1]))))
    return Comparison(before, after, names, tuple(s for s in sections if s.changes))


def _verdict(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Change]:
    a, b = (r["verdict"] for r in (before, after))
    for key in ("status", "code", "headline"):
        if a[key] != b[key]:
            yield Change(key, a[key] or "none", b[key] or "none")


def _findings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Change]:
    a, b = ({f["code"]: f for f in reversed(r["findings"])} for r in (before, after))
    for code in sorted(b.keys() - a.keys(), key=lambda c: _gravity(b[c])):
        yield Change(f"{code} new", ABSENT, f"{b[code]['severity']}: {b[code]['title']}")
    for code in sorted(a.keys() - b.keys(), key=lambda c: _gravity(a[c])):
        yield Change(f"{code} gone", f"{a[code]['severity']}: {a[code]['title']}", ABSENT)
    for code in sorted(a.keys() & b.keys()):
        if a[code]["title"] != b[code]["title"]:
            yield Change(code, a[code]["title"], b[code]["title"])


def _gravity(finding: Mapping[str, Any]) -> tuple[int, str]:
    return ("error", "warning", "note").index(finding["severity"]), finding["code"]


Look = Callable[[Mapping[str, Any]], dict[str, str]]
"""What one side has: name → value in words."""


def _both(look: Look, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Change]:
    a, b = look(before), look(after)
    for what in dict.fromkeys((*a, *b)):
        if a.get(what) != b.get(what):
            yield Change(what, a.get(what, ABSENT), b.get(what, ABSENT))


def _shape(job: Mapping[str, Any]) -> dict[str, str]:
    hosts = job.get("hosts", [])
    told = {
        "ranks": str(len(job.get("ranks", []))),
        "hosts": str(len(hosts)),
        "ranks without a word": spans(
            r["rank"] for r in job.get("ranks", []) if not r["heard"] and r["rank"] is not None
        ),
        "ranks on a host": _tally(str(len(h["ranks"])) for h in hosts),
        "GPUs of a host": _tally(", ".join(h["gpus"]) for h in hosts),
        "network devices of a host": _tally("; ".join(h["nics"]) for h in hosts),
    }
    return {name: value for name, value in told.items() if value}


def _versions(job: Mapping[str, Any]) -> dict[str, str]:
    return {name: _held(values) for name, values in job.get("versions", {}).items()}


def _environment(job: Mapping[str, Any]) -> dict[str, str]:
    told = {}
    for variable in job.get("environment", []):
        missing = variable["missing"]
        told[variable["name"]] = _held(variable["values"]) + (
            f"; not set on {plural(len(missing), 'rank')} {spans(missing)}" if missing else ""
        )
    return dict(sorted(told.items()))


def _networks(job: Mapping[str, Any]) -> dict[str, str]:
    told = {"network": _held(job.get("networks", {}))} if job.get("networks") else {}
    ways: Counter[str] = Counter()
    for edge in job.get("edges", []):
        ways[f"{edge['transport']} {edge['detail']}".strip()] += 1
    told.update({f"connections via {way}": str(n) for way, n in sorted(ways.items())})
    return told


def _topology(job: Mapping[str, Any]) -> dict[str, str]:
    told = {}
    for number, shape in enumerate(job.get("topologies", []), 1):
        where = f"host shape {number} ({shape['origin']})"
        told[f"{where}: hosts"] = str(len(shape["hosts"]))
        links = Counter(
            f"{link['kind']}"
            + (f" {link['gbytes_per_second']:g} GB/s" if link["gbytes_per_second"] else "")
            for link in shape["links"]
        )
        told.update({f"{where}: {kind}": plural(n, "link") for kind, n in sorted(links.items())})
    if graph := job.get("graph"):
        told["graph"] = (
            f"{plural(graph['channels'], 'channel')}, {graph['gbytes_per_second']:g} GB/s"
        )
    return told


def _communicators(job: Mapping[str, Any]) -> dict[str, str]:
    """Communicators have a new id in every run, so they are told apart by size and order."""
    told = {}
    seen: Counter[int] = Counter()
    for c in job.get("communicators", []):
        seen[c["size"]] += 1
        name = f"communicator of {c['size']} ranks, no. {seen[c['size']]}"
        told[f"{name}: channels"] = str(c["channels"] or "?")
        told[f"{name}: network"] = c["network"] or "?"
        issued = Counter(p["issued"] for p in c["calls"].values())
        told[f"{name}: collectives called"] = _tally(str(n) for n in issued.elements())
        calls = {tuple(p["recent"][-3:]) for p in c["calls"].values()}
        told[f"{name}: last calls"] = " | ".join(sorted(" → ".join(c) for c in calls)[:4])
        if c["divergence"]:
            told[f"{name}: ranks part at call"] = str(c["divergence"]["ordinal"])
    return told


def _algorithms(job: Mapping[str, Any]) -> dict[str, str]:
    told: dict[str, list[str]] = {}
    for a in job.get("algorithms", []):
        reach = size(a["smallest"])
        reach += f" to {size(a['largest'])}" if a["largest"] != a["smallest"] else ""
        told.setdefault(a["op"], []).append(f"{a['algorithm']}/{a['protocol']} ({reach})")
    return {op: ", ".join(ways) for op, ways in sorted(told.items())}


def _timings(job: Mapping[str, Any]) -> dict[str, str]:
    told = {}
    if job.get("init_seconds") is not None:
        told["slowest init"] = f"{job['init_seconds']:.2f} s"
    if lasted := duration(job.get("timeline", ())):
        told["from first to last event"] = lasted
    if pairs := [p["gbytes_per_second"] for p in job.get("pairs", [])]:
        told["slowest pair of ranks"] = f"{min(pairs):.4g} GB/s"
    return told


def _bandwidth(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Change]:
    """What the same calls reached at the largest size that both sides measured, where it is not about the same."""
    a, b = (_curves(job) for job in (before, after))
    for name in (name for name in a if name in b):
        common = a[name].keys() & b[name].keys()
        if not common:
            continue
        largest = max(common)
        old, new = a[name][largest], b[name][largest]
        if abs(new - old) > SAME * max(old, new):
            share = f" ({new / old - 1:+.0%})" if old else ""
            what = f"{name}, {size(largest)}" if largest else name
            yield Change(what, f"{old:.4g} GB/s", f"{new:.4g} GB/s{share}")


def _curves(job: Mapping[str, Any]) -> dict[str, dict[float, float]]:
    """What was measured how → message size → bus GB/s."""
    told: dict[str, dict[float, float]] = {}
    for curve in job.get("bandwidth", []):
        group = f", {curve['group']}" if curve["group"] != "world" else ""
        name = f"{curve['op']}{group} ({curve['origin']})"
        told.setdefault(name, {}).update({p[0]: p[1] for p in curve["points"]})
    return told


_LOOKS: Mapping[str, Look] = {
    "Size": _shape,
    "Versions": _versions,
    "Environment": _environment,
    "Network and connections": _networks,
    "Topology": _topology,
    "Communicators and calls": _communicators,
    "Algorithms": _algorithms,
    "Timings": _timings,
}


def _held(values: Mapping[str, list[int]]) -> str:
    """One value plain; several with the ranks that hold each."""
    if len(values) == 1:
        return next(iter(values)) or "(empty)"
    return "; ".join(f"{value} on {spans(ranks) or '?'}" for value, ranks in values.items())


def _tally(values: Iterable[str]) -> str:
    counts = Counter(v for v in values if v)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{n} × {value}" for value, n in sorted(counts.items()))
