"""`nccldoctor explain`: what a code means, why NCCL does that, and the remedy."""

import click

from nccldoctor.diagnose.catalogue import diagnoses, diagnosis
from nccldoctor.diagnose.diagnosis import Diagnosis
from nccldoctor.errors import DoctorError
from nccldoctor.lint.rule import Rule
from nccldoctor.lint.rules import rule, rules


@click.command(name="explain")
@click.argument("words", nargs=-1)
def command(words: tuple[str, ...]) -> None:
    """Explain a diagnosis or a lint rule: CODE or name, or words to search for; without any, list them all.

    \b
    nccldoctor explain HANG01
    nccldoctor explain socket
    """
    if len(words) == 1 and (found := diagnosis(words[0]) or rule(words[0])):
        click.echo(f"{found.code} {found.name} ({found.severity.value})\n")
        click.echo(found.documentation.strip())
        if isinstance(found, Diagnosis):
            click.echo("\nHow to confirm it:")
            for look in found.confirm:
                click.echo(f"  - {look}")
        click.echo("\nWhat to do, and what it costs:")
        for step in found.remedy:
            click.echo(f"  - {step}")
        if isinstance(found, Diagnosis) and found.explains:
            click.echo(f"\nWhat follows from it: {', '.join(found.explains)}")
        causes = [d.code for d in diagnoses() if found.code in d.explains]
        if causes:
            click.echo(f"\nWhat it may follow from: {', '.join(causes)}")
        return
    wanted = [w.casefold() for w in words]
    everything: list[Diagnosis | Rule] = [*diagnoses(), *rules()]
    hits = [
        d
        for d in everything
        if all(w in f"{d.code} {d.name} {d.documentation}".casefold() for w in wanted)
    ]
    if not hits:
        raise DoctorError(
            f"No diagnosis speaks of {' '.join(words)!r}; `nccldoctor explain` lists all"
        )
    for d in hits:
        click.echo(f"{d.code:<11}{d.name:<36}{d.severity.value:<9}{d.summary}")
