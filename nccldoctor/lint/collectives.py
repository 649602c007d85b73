"""Which calls every rank of a group has to make, and which group a call is for."""

import ast
from dataclasses import dataclass
from enum import Enum, auto

from nccldoctor.lint.names import last_name
from nccldoctor.lint.script import Call, Script, argument, constant


class Kind(Enum):
    """What the call does for the other ranks."""

    DATA = auto()  # moves data, or waits: all ranks of the group make it
    GROUP = auto()  # makes a group: all ranks of the world make it
    STATE = auto()  # collective only with sharded models: FSDP, ZeRO, DeepSpeed


@dataclass(frozen=True, slots=True)
class Collective:
    """A call that all ranks have to make; `group` is None where it is for the default group."""

    name: str
    kind: Kind
    node: ast.Call
    group: ast.expr | None = None


GROUP_POSITION = {
    "all_reduce": 2,
    "all_gather": 2,
    "all_gather_into_tensor": 2,
    "all_gather_object": 2,
    "all_gather_coalesced": 2,
    "_all_gather_base": 2,
    "all_to_all": 2,
    "all_to_all_single": 4,
    "all_reduce_coalesced": 2,
    "barrier": 0,
    "broadcast": 2,
    "broadcast_object_list": 2,
    "gather": 3,
    "gather_object": 3,
    "monitored_barrier": 0,
    "reduce": 3,
    "reduce_scatter": 3,
    "reduce_scatter_tensor": 3,
    "_reduce_scatter_base": 3,
    "scatter": 3,
    "scatter_object_list": 3,
}
_MAKERS = ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")
_CHECKPOINT = ("save", "load", "save_state_dict", "load_state_dict", "async_save")
_ACCELERATE = (
    "wait_for_everyone",
    "gather",
    "gather_for_metrics",
    "reduce",
    "pad_across_processes",
)
_TORCH = "torch.distributed."


def collective(script: Script, call: Call) -> Collective | None:
    """The collective that a call is, or None."""
    for home in (_TORCH, "deepspeed.comm."):
        if call.dotted.startswith(home):
            return _of_torch(script, call.node, call.dotted[len(home) :])
    if isinstance(call.node.func, ast.Attribute):
        return _of_framework(script, call.node, call.node.func)
    return None


def collectives(script: Script) -> list[Collective]:
    """All collectives of a script, in the order of the source."""
    found = (collective(script, call) for call in script.calls)
    return [c for c in found if c is not None]


def _of_torch(script: Script, node: ast.Call, name: str) -> Collective | None:
    if name in GROUP_POSITION:
        group = argument(node, GROUP_POSITION[name], "group")
        return Collective(f"dist.{name}", Kind.DATA, node, _named_group(script, group))
    if name in _MAKERS:
        return Collective(f"dist.{name}", Kind.GROUP, node)
    if name == "init_device_mesh":
        return Collective(name, Kind.GROUP, node)
    home, _, last = name.rpartition(".")
    if home == "checkpoint" and last in _CHECKPOINT:
        if constant(argument(node, -1, "no_dist")) is True:
            return None
        return Collective(f"dcp.{last}", Kind.DATA, node, argument(node, -1, "process_group"))
    if home.startswith("fsdp") and last in ("state_dict_type", "summon_full_params"):
        return Collective(f"FSDP.{last}", Kind.STATE, node)
    return None


def _named_group(script: Script, group: ast.expr | None) -> ast.expr | None:
    if group is None or (isinstance(group, ast.Constant) and group.value is None):
        return None
    if script.dotted(group) in (f"{_TORCH}group.WORLD", f"{_TORCH}GroupMember.WORLD"):
        return None
    return group


def _of_framework(script: Script, node: ast.Call, func: ast.Attribute) -> Collective | None:
    name, owner = func.attr, func.value
    if name in _ACCELERATE:
        mine = last_name(owner) == "accelerator" and script.names.imported("accelerate")
        return Collective(f"accelerator.{name}", Kind.DATA, node) if mine else None
    if name == "save_checkpoint":
        mine = isinstance(owner, ast.Name) and _made_by(script, owner, "deepspeed.initialize")
        return Collective(f"{last_name(owner)}.save_checkpoint", Kind.DATA, node) if mine else None
    if name == "log":
        synced = constant(argument(node, -1, "sync_dist")) is True
        alone = constant(argument(node, -1, "rank_zero_only")) is True
        mine = last_name(owner) == "self" and _lightning(script)
        whole = mine and synced and not alone
        return Collective("self.log(sync_dist=True)", Kind.DATA, node) if whole else None
    if name == "barrier" and last_name(owner) == "strategy" and _lightning(script):
        return Collective("strategy.barrier", Kind.DATA, node)
    return None


def _lightning(script: Script) -> bool:
    return script.names.imported("lightning", "pytorch_lightning")


def _made_by(script: Script, owner: ast.Name, maker: str) -> bool:
    """Whether the name is bound, alone or in a tuple, to what `maker` returns."""
    for assign in script.assigns:
        value = assign.value
        if isinstance(value, ast.Call) and script.dotted(value.func) == maker:
            targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
            for target in targets:
                if any(isinstance(n, ast.Name) and n.id == owner.id for n in ast.walk(target)):
                    return True
    return False
