"""This file runs first in every Python process of a watched job, and tells the launcher how each rank is doing.

It stands alone (standard library only, Python 3.8 or later): the job's Python need not have nccldoctor. In a rank it hands
stdout and stderr to the launcher's pipes, arms faulthandler on SIGUSR2, and starts one thread that sends a datagram a
second: counters of the process groups and where the main thread stands. In a torchrun agent it reports exit codes and
holds the agent for some seconds before it ends the other ranks, so that evidence can be taken from them. Whatever goes
wrong here is swallowed: the job comes first.
"""

import os
import sys

_SOCKET = os.environ.get("NCCLDOCTOR_SOCKET", "")
_FOLDER = os.environ.get("NCCLDOCTOR_FOLDER", "")
_CLAIM = "NCCLDOCTOR_CLAIM"
_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "deepspeed",
)
_AGENT = "torch.distributed.elastic.multiprocessing.api"
_WAITING = ("/torch/distributed/", "/torch/cuda/", "/torch/autograd/")
_PHASES = (
    (
        "compiling",
        ("/torch/_dynamo/", "/torch/_inductor/", "/triton/", "/torch/utils/cpp_extension"),
    ),
    (
        "checkpointing",
        ("/torch/serialization.py", "/torch/distributed/checkpoint/", "/safetensors/"),
    ),
)
_NAMES = (
    ("checkpointing", ("save_checkpoint", "load_checkpoint", "save_pretrained", "save_model")),
    ("evaluating", ("evaluate", "validate", "validation", "eval_loop", "evaluation_loop")),
)


def _identity():
    """(who gave the rank, rank, local rank) from the launcher's variables, or None in a process that is no rank."""
    get = os.environ.get
    for source, rank, local in (
        ("torch", "RANK", "LOCAL_RANK"),
        ("openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("mpi", "PMI_RANK", "MPI_LOCALRANKID"),
        ("slurm", "SLURM_PROCID", "SLURM_LOCALID"),
    ):
        if get(rank, "").isdigit() and (source == "mpi" or get(local, "").isdigit()):
            if source == "slurm" and int(get("SLURM_NTASKS") or 1) < 2:
                continue
            return source, int(get(rank, "")), int(get(local) or get(rank, ""))
    return None


def _is_launcher():
    words = getattr(sys, "orig_argv", None) or sys.argv
    return any(os.path.basename(w) in _LAUNCHERS for w in words[1:5])


def _claim():
    """Is this process the rank itself, and not a helper that a rank or a launcher started?"""
    found = _identity()
    if found is None or (found[0] != "torch" and _is_launcher()):
        return None
    mark = "%s:%d" % found[:2]
    if os.environ.get(_CLAIM) == mark:
        return None
    os.environ[_CLAIM] = mark
    return found


def _name_the_log(rank):
    """NCCL's file name gets the rank: containers may share host name and process numbers."""
    ours = os.environ.get("NCCLDOCTOR_LOG")
    if ours and os.environ.get("NCCL_DEBUG_FILE") == ours:
        folder, name = os.path.split(ours)
        os.environ["NCCL_DEBUG_FILE"] = os.path.join(folder, "rank%d_%s" % (rank, name))


def _trace_after_trouble():
    """From the second attempt on NCCL logs every collective; it reads this once, so a running job cannot be told."""
    ours = os.environ.get("NCCLDOCTOR_SUBSYS", "")
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")
    if again and ours and os.environ.get("NCCL_DEBUG_SUBSYS") == ours and "COLL" not in ours:
        os.environ["NCCL_DEBUG_SUBSYS"] = ours + ",COLL"


def _take_pipes(rank, local):
    """Puts the launcher's own pipes under stdout and stderr, where these are still the ones that it gave."""
    ours = os.environ.get("NCCLDOCTOR_PIPES", "")
    if ours != ",".join("%d:%d" % (os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in (1, 2)):
        return
    import array
    import json
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(5)
        link.connect("\0" + _SOCKET + ".out")
        hello = {"rank": rank, "local_rank": local, "pid": os.getpid()}
        link.sendall(json.dumps(hello).encode() + b"\n")
        fds = array.array("i")
        _, ancillary, _, _ = link.recvmsg(1, socket.CMSG_LEN(2 * fds.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: 2 * fds.itemsize])
    if len(fds) == 2:
        for fd, target in zip(fds, (1, 2)):
            os.dup2(fd, target)
            os.close(fd)


def _arm_faulthandler(rank):
    """SIGUSR2 writes all stacks into a file, even where Python's lock is held; an own handler of the job replaces it."""
    import faulthandler
    import signal

    if signal.getsignal(signal.SIGUSR2) is not signal.SIG_DFL:
        return False
    where = os.path.join(_FOLDER, "stack_rank_%d.faulthandler.txt" % rank)
    file = sys.stderr
    try:
        file = open(where, "w")
    except OSError:
        pass
    faulthandler.register(signal.SIGUSR2, file=file, all_threads=True, chain=False)
    return True


class _Reporter:
    """Sends the status of one rank, and answers the launcher's requests, from a thread of its own."""

    def __init__(self, rank, local, armed):
        import json
        import socket
        import threading

        self.json = json

        self.rank, self.local, self.armed = rank, local, armed
        self.every = float(os.environ.get("NCCLDOCTOR_EVERY") or 1.0)
        self.stopping = False
        self.watched = False
        self.main = threading.main_thread().ident or 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("")
        self.socket.settimeout(self.every)
        self.thread = threading.Thread(target=self.run, name="nccldoctor", daemon=True)
        self.thread.start()

    def run(self):
        self.send(self.status(hello=True))
        while not self.stopping:
            try:
                request = self.json.loads(self.socket.recv(65536))
            except (OSError, ValueError):  # a time-out: nothing was asked
                request = None
            if self.stopping:
                return
            try:
                if request and request.get("do") == "dump":
                    self.send(self.dump())
                else:
                    self.send(self.status())
            except Exception as error:
                self.send({"kind": "trouble", "pid": os.getpid(), "what": repr(error)[:300]})

    def send(self, message):
        try:
            self.socket.sendto(self.json.dumps(message).encode(), "\0" + _SOCKET)
        except OSError:
            pass

    def stop(self):
        """Ends the thread before the interpreter goes: torch's own objects may be gone after that."""
        import socket

        self.stopping = True
        self.send({"kind": "status", "pid": os.getpid(), "leaving": True})
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wake:
            try:
                wake.sendto(b"{}", self.socket.getsockname())
            except OSError:
                pass
        self.thread.join(2)

    def status(self, hello=False):
        message = {
            "kind": "status",
            "pid": os.getpid(),
            "rank": self.rank,
            "local_rank": self.local,
        }
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
        message["attempt"] = int(restarts) if restarts.isdigit() else 0
        if hello:
            message["argv"] = (getattr(sys, "orig_argv", None) or sys.argv)[:8]
        message["signal"] = self.armed and _signal_is_free()
        message.update(self.main_thread())
        message.update(self.groups())
        return message

    def groups(self):
        """How far each process group is: {name: [sequence number, size]}, and the recorder's own counters."""
        c10d = sys.modules.get("torch.distributed.distributed_c10d")
        if c10d is None or not hasattr(c10d, "_world"):
            return {"stage": "torch" if "torch" in sys.modules else "python"}
        if not self.watched:
            import atexit

            self.watched = True
            atexit.register(self.stop)
        if not c10d.is_initialized():
            return {"stage": "torch"}
        if self.rank is None:
            self.rank = c10d.get_rank()
        groups = {}
        for group, name in list(c10d._world.pg_names.items()):
            try:
                ranks = c10d._world.pg_group_ranks.get(group) or {}
                count = group._get_sequence_number_for_group()
                groups[str(name)] = [count, len(ranks), ranks.get(self.rank)]
            except Exception:
                continue
        result = {"stage": "group", "rank": self.rank, "world": c10d.get_world_size()}
        result["groups"] = groups
        cuda = sys.modules.get("torch.cuda")
        result["cuda"] = bool(cuda is not None and cuda.is_initialized())
        native = sys.modules.get("torch._C._distributed_c10d")
        for name in ("_dump_nccl_trace_json", "_dump_fr_trace_json"):
            try:
                status = self.json.loads(getattr(native, name)(includeCollectives=False))[
                    "pg_status"
                ]
            except Exception:
                continue
            if status:
                result["recorder"] = status
                break
        return result

    def main_thread(self):
        """Where the main thread stands: its innermost frame, the innermost frame of the user, and what that means."""
        frame = sys._current_frames().get(self.main)
        if frame is None:
            return {"frame": None, "moving": 0}
        # Same frame object at the same byte code: the thread has not moved in between.
        moving = hash((id(frame), frame.f_lasti)) & 0xFFFFFFFF
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        top = [name, file, frame.f_lineno]
        waiting = any(part in file for part in _WAITING) or name in ("synchronize", "wait")
        user, phase, names, depth = None, None, [], 0
        while frame is not None and depth < 200:
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            if phase is None:
                phase = next((p for p, parts in _PHASES if any(x in file for x in parts)), None)
            if phase is None:
                phase = next((p for p, known in _NAMES if name in known), None)
            if user is None and "site-packages" not in file and "/lib/python" not in file:
                if not file.startswith("<"):
                    user = [name, file, frame.f_lineno]
            names.append(name)
            frame, depth = frame.f_back, depth + 1
        if "init_process_group" in names or "_new_group_with_tag" in names:
            phase = "initialising"
        return {"frame": top, "user": user, "phase": phase, "waiting": waiting, "moving": moving}

    def dump(self):
        """Leaves the flight recorder of this rank in the run folder, and tells what came out."""
        answer = {"kind": "dumped", "pid": os.getpid(), "rank": self.rank, "files": []}
        native = sys.modules.get("torch._C._distributed_c10d")
        # A CUDA build has two recorders, NCCL's and everybody else's, and the one not in use dumps itself empty.
        names = ("_dump_nccl_trace", "_dump_fr_trace")
        dumps = [d for d in (getattr(native, name, None) for name in names) if d is not None]
        if not dumps or self.rank is None:
            answer["because"] = (
                "torch has no flight recorder here" if native else "torch is not loaded"
            )
            return answer
        path = os.path.join(_FOLDER, "fr_rank_%d" % self.rank)
        if os.path.exists(path) and os.path.getsize(path):
            answer["because"] = "PyTorch's own dump is there already"
            return answer
        data = max((_dumped(dump) for dump in dumps), key=len)
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.replace(path + ".part", path)
        answer["files"].append(path)
        return answer


def _dumped(dump):
    for arguments in ({"includeStackTraces": True}, {}):
        try:
            return dump(**arguments)
        except TypeError:
            continue
    return b""


def _signal_is_free():
    import signal

    return signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


class _AfterImport:
    """Calls a function once a module has been imported."""

    def __init__(self, actions):
        self.actions = actions

    def find_spec(self, name, path=None, target=None):
        action = self.actions.get(name)
        if action is None:
            return None
        import importlib.util

        self.actions.pop(name)  # first, or the look-up below comes back here
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                try:
                    action(module)
                except Exception:
                    pass

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _hold_agent(module):
    """Reports the ranks' exit codes from inside torchrun, and asks the launcher before the others are ended."""
    context = module.PContext
    close = context.close
    subprocesses = module.SubprocessContext
    polls = subprocesses._poll

    def codes(self):
        handlers = getattr(self, "subprocess_handlers", None) or {}
        found = {}
        for local, handler in handlers.items():
            code = handler.proc.poll()
            found[local] = [handler.proc.pid, code, self.envs[local].get("RANK")]
        return found

    def poll(self):
        result = polls(self)
        if result is not None:
            _ask({"kind": "ended", "ranks": codes(self)}, wait=0)
        return result

    def closing(self, *args, **kwargs):
        found = codes(self)
        ended = [c for _, c, _ in found.values() if c is not None]
        if any(ended) and not getattr(self, "_nccldoctor_held", False):
            self._nccldoctor_held = True
            _ask({"kind": "failed", "ranks": found}, wait=60)
        return close(self, *args, **kwargs)

    context.close = closing
    subprocesses._poll = poll


def _ask(message, wait):
    """Sends a message and waits up to `wait` seconds for the launcher's leave to go on."""
    import json
    import select
    import socket

    message["pid"] = os.getpid()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        try:
            link.bind("")
            link.sendto(json.dumps(message).encode(), "\0" + _SOCKET)
            if wait:
                select.select([link], [], [], wait)
        except OSError:
            pass


def _next_sitecustomize():
    """Runs the sitecustomize that this one hides, if there is one."""
    import importlib.machinery

    here = os.path.dirname(os.path.abspath(__file__))
    others = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        import importlib.util

        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _start():
    claimed = _claim()
    if claimed is not None:
        _, rank, local = claimed
        _name_the_log(rank)
        _trace_after_trouble()
        try:
            _take_pipes(rank, local)
        except Exception:
            pass
        try:
            armed = _arm_faulthandler(rank)
        except Exception:
            armed = False
        _Reporter(rank, local, armed)
    elif not os.environ.get(_CLAIM):
        found = {_AGENT: _hold_agent}
        if not _is_launcher():
            found["torch.distributed.distributed_c10d"] = lambda module: _Reporter(
                None, None, False
            )
        sys.meta_path.insert(0, _AfterImport(found))


if _SOCKET:
    try:
        _start()
    except Exception:
        pass
try:
    _next_sitecustomize()
except ImportError:
    pass
