"""What is started, with which environment, and what the exit code becomes."""

import sys

import pytest

from nccldoctor.collect.environment import instrument, settings
from nccldoctor.collect.ladder import LEVERS, climb, tell
from nccldoctor.collect.launch import (
    Elastic,
    inside_launcher,
    is_script,
    launcher_of,
    on_several_hosts,
    plan_command,
    plan_script,
    processes_here,
)
from nccldoctor.collect.session import Ended, Outcome, exit_code
from nccldoctor.errors import DoctorError


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"RANK": "1", "LOCAL_RANK": "1"}, ("env://", 1)),
        ({"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"}, ("torchrun", 1)),
        ({"RANK": "1", "WORLD_SIZE": "2", "PET_NNODES": "2"}, None),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}, ("Slurm", 3)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, None),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1"}, None),
        ({"OMPI_COMM_WORLD_RANK": "2"}, ("Open MPI", 2)),
        ({"PMI_RANK": "2"}, ("MPI", 2)),
        ({"RAY_JOB_ID": "01", "RANK": "3"}, ("Ray", 3)),
    ],
)
def test_is_this_one_rank_of_a_launched_job(environ, found):
    assert inside_launcher(environ) == found


@pytest.mark.parametrize(
    ("devices", "count"), [("0,1,2", 3), ("", 1), ("-1", 1), ("MIG-a,MIG-b", 2), ("5", 1)]
)
def test_processes_follow_the_visible_devices(devices, count):
    assert processes_here({"CUDA_VISIBLE_DEVICES": devices})[0] == count


def test_scripts_and_commands(tmp_path):
    assert is_script(["train.py", "--lr", "1"])
    assert is_script(["-m", "package.train"])
    assert not is_script(["torchrun", "train.py"])
    with pytest.raises(DoctorError, match="no file"):
        plan_script(["nowhere.py"], Elastic(2), tmp_path, {})
    with pytest.raises(DoctorError, match="no such command"):
        plan_command(["no-such-launcher-at-all", "x"], {})


def test_the_torchrun_command(tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    plan = plan_script([str(script), "--lr", "1"], Elastic(4), tmp_path, {})
    assert plan.command[:4] == (sys.executable, "-m", "torch.distributed.run", "--standalone")
    assert "--nproc-per-node=4" in plan.command
    assert plan.command[-3:] == (str(script), "--lr", "1")
    several = Elastic(4, nnodes="2", node_rank=1, rdzv_endpoint="host:29500")
    command = plan_script([str(script)], several, tmp_path, {}).command
    assert "--standalone" not in command
    assert {"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=host:29500"} <= set(command)


POD = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "8", "PET_NODE_RANK": "1", "RANK": "1"}


def test_what_an_operator_of_kubernetes_sets_is_heeded(tmp_path):
    """RANK is the pod's number there, and torchrun would read PET_* itself if it were not told otherwise."""
    script = tmp_path / "train.py"
    script.touch()
    pod = {**POD, "PET_RDZV_ENDPOINT": "head:29400", "PET_RDZV_BACKEND": "c10d"}
    elastic = Elastic().completed(pod)
    plan = plan_script([str(script)], elastic, tmp_path, pod)
    assert plan.processes == 8
    assert "--standalone" not in plan.command
    assert {"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=head:29400", "--rdzv-backend=c10d"} <= set(plan.command)  # fmt: skip
    assert on_several_hosts([str(script)], elastic, pod)
    static = plan_script([str(script)], Elastic().completed(POD), tmp_path, POD).command
    assert "--standalone" not in static and not any("rdzv" in word for word in static)


@pytest.mark.parametrize(
    ("words", "several"),
    [
        (("torchrun", "--nnodes=2", "train.py"), True),
        (("torchrun", "--nnodes", "1:4", "train.py"), True),
        (("torchrun", "--nnodes", "1", "train.py"), False),
        (("python", "-m", "torch.distributed.run", "--nnodes", "2", "train.py"), True),
        (("mpirun", "-np", "2", "python", "train.py"), False),
    ],
)
def test_hosts_of_a_command(words, several):
    assert on_several_hosts(words, Elastic(), {}) is several


def test_only_the_static_rendezvous_heeds_the_hosts_number(tmp_path):
    script = tmp_path / "train.py"
    script.touch()

    def backend(**more):
        elastic = Elastic(2, nnodes="2", rdzv_endpoint="head:1", **more)
        command = plan_script([str(script)], elastic, tmp_path, {}).command
        return next(word for word in command if word.startswith("--rdzv-backend"))

    assert backend(node_rank=1) == "--rdzv-backend=static"
    assert backend() == "--rdzv-backend=c10d"
    assert backend(node_rank=1, max_restarts=2) == "--rdzv-backend=c10d"


@pytest.mark.parametrize(
    ("words", "launcher"),
    [
        (("accelerate", "launch", "train.py"), "accelerate"),
        (("deepspeed", "--num_gpus", "8", "train.py"), "deepspeed"),
        (("/opt/bin/srun", "-n2", "python", "train.py"), "srun"),
        (("python3", "-m", "torch.distributed.launch", "train.py"), "torch.distributed.launch"),
        (("python3", "train.py"), None),
    ],
)
def test_launchers_are_known(words, launcher):
    assert launcher_of(words) == launcher


def test_what_the_user_set_stays(tmp_path):
    user = {"NCCL_DEBUG": "WARN", "TORCH_NCCL_TRACE_BUFFER_SIZE": "10", "PYTHONPATH": "/mine"}
    wanted = settings(tmp_path, user, trace_calls=False, torch=None)
    job = instrument(user, wanted, folder=tmp_path, run="r", address="a")
    assert job["NCCL_DEBUG"] == "WARN"
    assert job["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "10"
    assert "TORCH_FR_BUFFER_SIZE" not in job
    assert job["PYTHONPATH"].endswith(":/mine")
    assert "COLL" not in job["NCCL_DEBUG_SUBSYS"]
    assert "COLL" in {s.name: s.value for s in settings(tmp_path, {}, trace_calls=True, torch=None)}["NCCL_DEBUG_SUBSYS"]  # fmt: skip


@pytest.mark.parametrize(("torch", "old", "new"), [((2, 6), True, False), ((2, 11), False, True)])
def test_recorder_names_fit_the_version(tmp_path, torch, old, new):
    names = {s.name for s in settings(tmp_path, {}, trace_calls=False, torch=torch)}
    assert ("TORCH_NCCL_TRACE_BUFFER_SIZE" in names) is old
    assert ("TORCH_FR_BUFFER_SIZE" in names) is new


def test_exit_codes():
    first = Ended(1, 1, 11, -9, first=True)
    other = Ended(0, 0, 10, -15, by_launcher=True)
    assert exit_code(Outcome(command_code=1, ended=[other, first])) == 137
    assert exit_code(Outcome(command_code=0)) == 0
    assert exit_code(Outcome(command_code=-11)) == 139
    assert exit_code(Outcome(command_code=1, stopped_by="SIGTERM")) == 143
    assert exit_code(Outcome(command_code=-9, hang={"ended_job": True})) == 124
    assert exit_code(Outcome(command_code=5, hang={"ended_job": False})) == 5


def test_the_ladder_stops_at_the_first_lever_that_works():
    seen = []

    def run(lever, environ):
        seen.append(environ)
        return 0 if "NCCL_SHM_DISABLE" in environ else 124

    rungs = climb({"PATH": "/bin"}, run)
    assert [r.lever.name for r in rungs] == ["one-channel", "no-p2p", "no-shm"]
    assert "NCCL_P2P_DISABLE" not in seen[-1]
    told = " ".join(tell(rungs))
    assert "NCCL_SHM_DISABLE=1" in told and "shared memory" in told and "take it out" in told


def test_the_ladder_leaves_the_users_own_settings_alone():
    rungs = climb({"NCCL_P2P_DISABLE": "0"}, lambda lever, environ: 1)
    assert "no-p2p" not in [r.lever.name for r in rungs]
    assert len(rungs) == len(LEVERS) - 1
    assert "elsewhere" in tell(rungs)[-1]
