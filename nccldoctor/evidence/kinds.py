"""Tells the kind of an input from its first bytes, never from its name."""

import re

from nccldoctor.model.source import Kind

HEAD = 1 << 16
"""How many bytes from the start `kind_of` wants."""

_PICKLE = re.compile(rb"\x80[\x02-\x05](?:\x95.{8})?(?:[}\](]|c__main__)", re.S)
_RECORDER_KEYS = re.compile(
    rb"pg_config|pg_status|comm_lib_version|nccl_comm_state|collective_seq_id"
)
_RAS_GREETING = re.compile(rb"SERVER PROTOCOL \d+\s+(?:OK\s+)?")
_RAS_JSON = re.compile(rb'\A\{\s*"nccl_version"\s*:.*?"communicators', re.S)
_RAS_TEXT = re.compile(rb"\ANCCL version [^\n]+ compiled with CUDA")
_OWN = re.compile(rb'\{\s*"nccldoctor"\s*:\s*"(\w+)"')
_INSPECTOR = re.compile(rb'\A\{[^\n]*"inspector_output_format_version"')
_TOPOLOGY = re.compile(
    rb"\A(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--(?:(?!-->).){0,2000}-->\s*){0,20}<(?:system|graphs|trees)[\s>]",
    re.S,
)
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_SMI_FIRST = re.compile(
    rb"={4,200}\s*(?:NVSMI LOG|ROCm System Management Interface)|\| NVIDIA-SMI |GPU\d+\s+(?:GPU\d+|NIC\d+|CPU Affinity|X\s)"
    rb"|GPU \d+: [^\n]{1,80}\(UUID: (?:GPU|MIG)-|(?:ACCESS|WEIGHT|HOPS|LINK TYPE) TABLE:$"
)
_TEXT_CONTROLS = b"\t\n\r\x08\x0b\x0c\x1b"
_CONTROLS = bytes(b for b in range(32) if b not in _TEXT_CONTROLS)


def kind_of(head: bytes) -> Kind:
    """The kind of an input that starts with `head`, its first `HEAD` decompressed bytes.

    Text without a single NCCL line is a `Kind.LOG` too: ranks' output, stacks and kernel logs come that way.
    """
    if not head:
        return Kind.EMPTY
    if _PICKLE.match(head):
        return Kind.RECORDER if _RECORDER_KEYS.search(head) else Kind.FOREIGN
    body = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not body:
        return Kind.EMPTY
    known = _json(body) if body[:1] == b"{" else _text(body)
    if known is not None:
        return known
    return Kind.LOG if _is_text(head) else Kind.FOREIGN


def is_nccldoctors_own_report(head: bytes) -> bool:
    """Whether this is a report that nccldoctor wrote earlier: no evidence, and never read as such."""
    body = head.lstrip()
    if _OWN.match(body):
        return False
    return (body[:1] == b"{" and b'"schema"' in body[:200] and b'"nccldoctor"' in body[:400]) or (
        body[:15].lower() == b"<!doctype html>" and b"nccldoctor" in body[:4096]
    )


def _json(body: bytes) -> Kind | None:
    if own := _OWN.match(body):
        return Kind.DIGEST if own[1] == b"digest" else Kind.SNAPSHOT
    if _INSPECTOR.match(body):
        return Kind.INSPECTOR
    if _RAS_JSON.match(body):
        return Kind.RAS
    if b'"entries"' in body and _RECORDER_KEYS.search(body):
        return Kind.RECORDER
    if b'"pg_config"' in body or b'"comm_lib_version"' in body:
        return Kind.RECORDER
    return None


def _text(body: bytes) -> Kind | None:
    greeting = _RAS_GREETING.match(body)
    if greeting is not None or _RAS_TEXT.match(body):
        return Kind.RAS
    if body[:1] == b"<" and _TOPOLOGY.match(body):
        return Kind.TOPOLOGY
    start = _COLOUR.sub(b"", body[:600]).lstrip()
    first_lines = start.split(b"\n", 3)[:3]
    if any(_SMI_FIRST.match(line.strip()) for line in first_lines):
        return Kind.SMI
    return None


def _is_text(head: bytes) -> bool:
    """NUL bytes are forgiven: a log cut while it is written to starts with a hole of them."""
    body = head.replace(b"\0", b"")
    if not body:
        return True
    odd = len(body) - len(body.translate(None, _CONTROLS))
    if odd * 50 > len(body):
        return False
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        cut_at_the_end = error.start >= len(body) - 4
        return cut_at_the_end or b" NCCL " in body or body.isascii() or _latin(body)
    return True


def _latin(body: bytes) -> bool:
    """Mostly ASCII, so an old 8-bit encoding or a few torn bytes rather than a binary file."""
    return sum(byte > 127 for byte in body[:4096]) * 5 < len(body[:4096])
