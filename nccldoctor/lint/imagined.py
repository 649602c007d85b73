"""The job that lint imagines, eight ranks on two hosts, and what usual names and variables are on each of its ranks."""

import re
from collections.abc import Callable

WORLD = 8
PER_HOST = 4
RANKS = (0, 1, 4, 7)
ENVIRONMENT: dict[str, Callable[[int], int]] = {
    "RANK": lambda r: r,
    "SLURM_PROCID": lambda r: r,
    "OMPI_COMM_WORLD_RANK": lambda r: r,
    "PMI_RANK": lambda r: r,
    "LOCAL_RANK": lambda r: r % PER_HOST,
    "SLURM_LOCALID": lambda r: r % PER_HOST,
    "OMPI_COMM_WORLD_LOCAL_RANK": lambda r: r % PER_HOST,
    "GROUP_RANK": lambda r: r // PER_HOST,
    "NODE_RANK": lambda r: r // PER_HOST,
    "SLURM_NODEID": lambda r: r // PER_HOST,
    "WORLD_SIZE": lambda _: WORLD,
    "SLURM_NTASKS": lambda _: WORLD,
    "LOCAL_WORLD_SIZE": lambda _: PER_HOST,
}


class Unknown:
    """What cannot be told from the script."""


UNKNOWN = Unknown()

_GLOBAL = re.compile(r"_?(global_|ddp_|dist_|world_|my_)?rank|process_index|proc_id|procid")
_LOCAL = re.compile(r"_?(ddp_)?local_rank|local_process_index|node_local_rank|local_id")
_NODE = re.compile(r"node_rank|machine_rank|group_rank|node_id")
_WORLD = re.compile(r"_?(global_|ddp_)?world_size|num_processes|nranks")
_MAIN = re.compile(
    r"_?(is_)?(global_|world_)?(main|master)(_process|_rank|_proc)?|_?is_(global_|world_)?(rank_?|process_)?(0|zero)"
    r"|is_chief|is_leader|should_log_rank_?0|is_world_process_zero"
)
_LOCAL_MAIN = re.compile(
    r"_?is_local_(main|master)(_process)?|is_local_(process_)?zero|is_local_rank_?(0|zero)"
)
_NOT_MAIN = {"main", "_main", "master", "_master", "global_main", "world_main"}


def by_name(name: str, rank: int) -> object:
    """What a name that everybody uses for a rank stands for on a rank, or UNKNOWN."""
    if _LOCAL.fullmatch(name):
        return rank % PER_HOST
    if _NODE.fullmatch(name):
        return rank // PER_HOST
    if _GLOBAL.fullmatch(name):
        return rank
    if _WORLD.fullmatch(name):
        return WORLD
    if _LOCAL_MAIN.fullmatch(name):
        return rank % PER_HOST == 0
    if _MAIN.fullmatch(name) and name not in _NOT_MAIN:
        return rank == 0
    return UNKNOWN
