"""Where the hosts of one job meet: the folder they share, and the job's own store as soon as it is known where that is."""

from collections.abc import Mapping
from dataclasses import dataclass

from nccldoctor.collect import observe, rally_store
from nccldoctor.collect.intake import Intake
from nccldoctor.collect.launch import Plan
from nccldoctor.collect.rally import Alarm, Rally


@dataclass(slots=True)
class Meeting:
    """Joins the job's store as soon as it is known where that is, and listens."""

    rally: Rally
    plan: Plan
    endpoint: str | None
    intake: Intake
    environ: Mapping[str, str]
    _joined: bool = False

    def heard(self) -> Alarm | None:
        if not self._joined:
            ranks = observe.living(self.intake)
            address = rally_store.where(self.endpoint, ranks, self.environ)
            if address is not None:
                self._joined = True
                if self._speaks_for_the_host():
                    python = rally_store.python_of(ranks)
                    self.rally.channels.append(
                        rally_store.Store(address, self.rally.name, python, self.environ)
                    )
        return self.rally.heard()

    def _speaks_for_the_host(self) -> bool:
        """Of the nccldoctors that a launcher has started, one for each rank, the first of each host is enough."""
        names = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
        local = next((self.environ[n] for n in names if n in self.environ), "0")
        return self.plan.rank is None or local == "0"
