"""Processes do not find each other: the store or the elastic rendezvous gives up.

Before NCCL is called at all, rank 0 (or the elastic agent) serves a TCPStore at MASTER_ADDR:MASTER_PORT and all ranks
connect to it. It fails when the address does not resolve or is not reachable, when another program has the port, when
ranks come later than the timeout or never, or when they are given different addresses.
Not a fault of its own: a store that times out because another rank had died before; then that death is the cause. An
IPv6 look-up that fails while IPv4 works is only a warning.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.store_keys import out_of_step
from nccldoctor.diagnose.words import lines, ranges, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommComplete
from nccldoctor.model.events.torch import (
    PortInUse,
    ProcessEnded,
    PythonException,
    StoreTimeout,
)
from nccldoctor.model.events.usage import ForeignServer, NameUnresolved, VariableMissing
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT03"
name = "rendezvous-failed"
severity = Severity.ERROR
needs = (Evidence.OUTPUT,)
explains = (
    "CRASH01",
    "INIT01",
    "INIT07",
    "INIT10",
    "NET10",
    "HANG01",
    "HANG02",
    "HANG04",
    "HANG05",
    "LOG01",
)
confirm = (
    "echo $(hostname) $MASTER_ADDR $MASTER_PORT $RANK $WORLD_SIZE; getent hosts $MASTER_ADDR  # on each host: one address, one port, each rank once",
    "nc -vz $MASTER_ADDR $MASTER_PORT  # from each other host, while rank 0 waits: the port must be open; on rank 0's host: ss -ltnp | grep $MASTER_PORT",
)
remedy = (
    "torchrun --nnodes=N --nproc-per-node=M --rdzv-backend=c10d --rdzv-endpoint=HEAD:29500 train.py  # the same on all hosts; costs nothing",
    "export MASTER_PORT=$((20000 + RANDOM % 10000))  # on rank 0, given to all, where another job has the port; costs nothing",
    "dist.init_process_group('nccl', timeout=timedelta(minutes=30))  # only when hosts legitimately start that far apart; costs half an hour until a missing host is noticed",
)

_KILLED = (-9, -7, -11, 137)
"""Exit codes of the out-of-memory killer and of faults in native code."""
_STORE_ERRORS = (
    "DistStoreError",
    "store based barrier",
    "DistNetworkError",
    "Rendezvous",
    "Socket Timeout",
    "host not found",
    "env://",
)


def check(job: Job) -> Iterable[Found]:
    """One finding, for the most telling of the messages: port, address, variable, then the time-out itself."""
    ports = job.events(PortInUse)
    foreign = job.events(ForeignServer)
    variables = job.events(VariableMissing)
    timeouts = _before_work(job)
    names = [e for e in job.events(NameUnresolved) if e.family == "IPv4" or timeouts]
    if ports:
        yield _port(job, ports)
    if foreign:
        yield _found(
            job, foreign, "reached something that is no TCPStore at MASTER_ADDR:MASTER_PORT"
        )
    if variables:
        missing = ", ".join(sorted({e.variable for e in variables}))
        yield _found(
            job,
            variables,
            f"found no {missing} in the environment: it was started without torchrun or srun",
        )
    if names and timeouts:
        what = f"cannot resolve {names[0].name}, the rendezvous address"
        proof = lines([*names[:2], *timeouts[:2]])
        yield told_by(job, names, f"{who(job, names)} {what}", evidence=proof)
    elif timeouts and not (ports or foreign):
        yield _timeout(job, timeouts)


def _before_work(job: Job) -> list[StoreTimeout]:
    """Time-outs of processes that had no communicator or group yet; later ones follow from whatever broke the job.

    The barrier of a later group is INIT10's to tell.
    """
    done = {p.id for e in job.events(CommComplete) if (p := job.process_of(e))}
    nobody = out_of_step(job) is None
    return [
        e
        for e in job.events(StoreTimeout)
        if (e.group is None or (nobody and e.joined is None))
        and ((p := job.process_of(e)) is None or p.id not in done)
    ]


def _port(job: Job, events: list[PortInUse]) -> Found:
    port = next((e.port for e in events if e.port), None)
    number = f"port {port}" if port else "the rendezvous port"
    return told_by(
        job,
        events,
        f"{who(job, events, 'Rank 0')} cannot serve the store: {number} is in use by another process",
        remedy=(
            f"ss -ltnp 'sport = :{port or 29500}'  # who holds it: often the last run of the same job",
            "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nnodes=1 --nproc-per-node=N train.py  # takes a free port; costs nothing, on one host only",
            "export MASTER_PORT=$((20000 + RANDOM % 20000))  # once, before the launcher, the same for all ranks; costs nothing",
        ),
    )


def _timeout(job: Job, events: list[StoreTimeout]) -> Found:
    counted = next((e for e in events if e.joined is not None), None)
    address = next((e.address for e in events if e.address), None)
    died = _died_before(job)
    missing: tuple[int, ...] = ()
    if counted is not None:
        rest = (counted.expected or 0) - (counted.joined or 0)
        missing = _missing(job, counted.expected or 0, rest)
        what = f"waited for {counted.expected} ranks and only {counted.joined} came"
        if not missing:
            what += f": {'one is' if rest == 1 else f'{rest} are'} late, dead or never started"
    elif address is not None:
        what = f"could not reach the store at {address.replace(', ', ':')}"
    elif "keys: " in events[0].what:
        waited, _, key = events[0].what.partition(", keys: ")
        what = f"waited in vain for what another rank puts into the store ({waited}, key {key})"
    else:
        what = f"gave up at the rendezvous ({events[0].what})"
    if died:
        what += f", after {_death(died[0])} in {_rank(job, died[0])}"
    teller = who(job, [counted] if counted else events)
    if missing:
        late = f"Rank{'s' * (len(missing) > 1)} {ranges(missing)} never came to the rendezvous"
        teller = f"{late}: {teller[0].lower()}{teller[1:]}"
    return Found(
        title=f"{teller} {what}",
        evidence=lines([*([counted] if counted else []), *events, *died[:1]]),
        confidence=Confidence.HIGH if counted or address else Confidence.MEDIUM,
        ranks=missing if counted else job.ranks_of(events),
        hosts=() if missing else job.hosts_of(events),
        severity=Severity.NOTE if died else None,
        consequence=bool(died),
        remedy=_LATE if "(wait timeout" in what and not (counted or address) else (),
    )


_LATE = (
    "py-spy dump --pid PID  # of the other ranks: where does the one stand that should have put it there?",
    "nccldoctor parse LOGS-OF-ALL-RANKS  # the one that died, or failed before, is the cause",
    "dist.init_process_group('nccl', timeout=timedelta(minutes=30))  # only where a rank is legitimately that late; costs half an hour until a real hang is noticed",
)


def _missing(job: Job, expected: int, number: int) -> tuple[int, ...]:
    """The ranks of which nothing was heard, where they are just as many as did not come."""
    heard = {p.rank for p in job.processes}
    silent = tuple(rank for rank in range(expected) if rank not in heard)
    return silent if len(silent) == number else ()


def _death(event: PythonException | ProcessEnded) -> str:
    return event.type if isinstance(event, PythonException) else f"signal {-event.exit_code}"


def _died_before(job: Job) -> list[PythonException | ProcessEnded]:
    """Deaths that are no rendezvous failure themselves, in processes that never got a communicator."""
    done = {p.id for e in job.events(CommComplete) if (p := job.process_of(e))}
    killed = [e for e in job.events(ProcessEnded) if e.exit_code in _KILLED]
    raised = [
        e
        for e in job.events(PythonException)
        if not any(word in f"{e.type}: {e.message}" for word in _STORE_ERRORS)
        and e.type not in ("KeyboardInterrupt", "SystemExit")
        and not e.type.endswith(("DistBackendError", "ChildFailedError", "SignalException"))
        and ((p := job.process_of(e)) is None or p.id not in done)
    ]
    return [*raised, *killed]


def _found(
    job: Job, events: list[Event] | list[ForeignServer] | list[VariableMissing], what: str
) -> Found:
    return told_by(job, events, f"{who(job, events)} {what}")


def _rank(job: Job, event: Event) -> str:
    rank = job.rank_of(event)
    return "another process" if rank is None else f"rank {ranges([rank])}"


fires_on = {
    "2.2+, a rank is late": "[rank0]: torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 clients joined.",
    "2.0+, no way to the store": (
        "[E1130 04:06:31.313575390 socket.cpp:1028] [c10d] The client socket has timed out after 8000ms while trying to connect to (10.0.0.1, 29500).\n"
        "torch.distributed.DistNetworkError: The client socket has timed out after 8000ms while trying to connect to (10.0.0.1, 29500).\n"
    ),
    "2.5+, port in use": "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29953, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    "2.0-2.4, port in use": "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    "name does not resolve": (
        "[W1130 04:15:21.1 socket.cpp:764] [c10d] The IPv4 network addresses of (head-node, 29955) cannot be retrieved (gai error: -2 - Name or service not known).\n"
        "torch.distributed.DistNetworkError: The client socket has timed out after 3000ms while trying to connect to (head-node, 29955).\n"
    ),
    "elastic": "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
    "python instead of torchrun": "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set",
    "a web proxy on the port": "torch.distributed.DistNetworkError: Ping failed, invalid value returned from server. Expected: 28005, Got: 1347703880",
}
silent_on = {
    "IPv6 look-up fails, IPv4 works": "[W socket.cpp:764] [c10d] The IPv6 network addresses of (head-node, 29500) cannot be retrieved (gai error: -97 - Address family for hostname not supported).",
    "store lost at the end": "[W1130 03:57:20.361682915 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on SocketImpl(fd=52, addr=[localhost]:42202, remote=[localhost]:45723): Failed to recv, got 0 bytes. Connection was likely closed.",
    "a rank joins late but in time": "[rank0]: loss 0.31\n[rank1]: waiting for data\n",
}
