"""The little that all pictures share: elements with escaped text, and the frame that names a picture."""

from collections.abc import Iterable

from markupsafe import Markup, escape

from nccldoctor.report.words import harmless


def element(name: str, inner: str = "", /, **attributes: object) -> Markup:
    """One SVG element. `inner` is escaped unless it is Markup; `class_` is class, `_` in names is `-`."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    body = inner if isinstance(inner, Markup) else escape(harmless(inner))
    return Markup(f"<{name}{told}>{body}</{name}>") if body else Markup(f"<{name}{told}/>")


def picture(width: float, height: float, label: str, parts: Iterable[str]) -> Markup:
    """The frame: as wide as its column at most, and `label` for those who do not see it."""
    return element(
        "svg",
        Markup("").join(parts),
        viewBox=f"0 0 {_short(width)} {_short(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=harmless(label),
    )


def title(text: str) -> Markup:
    """What a pointer that rests on the element is told."""
    return element("title", text)


def clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
