"""Ray: digests NCCL's logs on every node of the cluster, and writes one report here. Needs nccldoctor on all nodes.

ray job submit --runtime-env-json '{"env_vars": {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/tmp/nccl_%h_%p.log"}}' -- python train.py
python ray_digests.py /tmp/nccl_*.log '/tmp/ray/session_latest/logs/worker-*'
"""

import glob
import subprocess
import sys
import tempfile
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
def digest(patterns: list[str]) -> bytes:
    """The digest of what this node has; empty when it has nothing."""
    files = sorted(path for pattern in patterns for path in glob.glob(pattern))
    if not files:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "node.ncd")
        subprocess.run(["nccldoctor", "digest", *files, "-o", made], check=True)
        return made.read_bytes()


def main(patterns: list[str]) -> int:
    ray.init(address="auto")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[node["NodeID"]] = digest.options(scheduling_strategy=there).remote(patterns)
    with tempfile.TemporaryDirectory() as folder:
        for name, answer in asked.items():
            try:
                data = ray.get(answer, timeout=600)
            except Exception as error:  # a node that is lost costs its logs only
                print(f"node {name}: {error}", file=sys.stderr)
                continue
            if data:
                Path(folder, f"{name}.ncd").write_bytes(data)
        return subprocess.run(["nccldoctor", "parse", folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
