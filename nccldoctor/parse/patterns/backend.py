"""Plugins and backends: which were asked for, found, loaded or refused."""

from nccldoctor.model.events import plugin, torch, trouble, usage
from nccldoctor.parse.pattern import Pattern

NCCL = [
    Pattern(
        plugin.PluginAsked,
        "Plugin name set by env to ",
        r"^NET/Plugin ?: Plugin name set by env to (?P<plugin>\S+)",
        {"2.21-2.27": "NET/Plugin: Plugin name set by env to libnccl-net-ofi.so"},
    ),
    Pattern(
        plugin.PluginMissing,
        "Could not find:",
        r"^(?P<kind>\w+)/Plugin: Could not find: ?(?P<library>[^.\s][^\s]*(?: [^\s.][^\s]*\.so\b)*)",
        {
            "2.22-2.27": "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
            "2.28+": "TUNER/Plugin: Could not find: libnccl-tuner.so libnccl-net.so.",
        },
    ),
    Pattern(
        plugin.PluginMissing,
        "No plugin found (",
        r"^(?P<kind>\w+)/Plugin ?: (?:dlerror=.* )?No plugin found \((?P<library>[^)]*)\)",
        {
            "2.21, RCCL 6.x": "NET/Plugin: No plugin found (librccl-net.so)",
            "2.11-2.16": "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
            "2.19-2.20": "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation",
        },
    ),
    Pattern(
        plugin.PluginMissing,
        "when loading ",
        r"^(?P<kind>\w+)/Plugin ?: Plugin load returned \d+ : (?P<library>[^\s:]+): cannot open shared object file.* when loading (?P=library)",
        {
            "2.21": "NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory when loading libnccl-net.so"
        },
    ),
    Pattern(
        plugin.PluginMissing,
        "Plugin load (",
        r"^(?P<kind>\w+)/Plugin ?: Plugin load \((?P<library>[^)]+)\) returned \d+ : (?P=library): cannot open shared",
        {
            "2.17-2.18": "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory"
        },
    ),
    Pattern(
        plugin.PluginBroken,
        "Plugin load (",
        r"^NET/Plugin ?: Plugin load \((?P<plugin>[^)]+)\) returned \d+ : (?P<reason>(?!\(null\)).+)$",
        {
            "2.17-2.18": "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libfabric.so.1: cannot open shared object file: No such file or directory"
        },
    ),
    Pattern(
        plugin.PluginBroken,
        "when loading ",
        r"^NET/Plugin ?: Plugin load (?:\([^)]*\) )?returned \d+ : (?P<reason>(?!\(null\)).+?) ?:? when loading (?P<plugin>\S+)",
        {
            "2.18-2.21": "NET/Plugin: Plugin load returned 17 : libfabric.so.1: cannot open shared object file: No such file or directory when loading libnccl-net.so"
        },
    ),
    Pattern(
        plugin.PluginBroken,
        "ncclOsDlopen(",
        r"^ncclOsDlopen\((?P<plugin>[^)]*net[^)]*)\) failed: (?P<reason>(?!(?P=plugin): cannot open).+)$",
        {
            "2.30+": "ncclOsDlopen(libnccl-net.so) failed: libfabric.so.1: cannot open shared object file: No such file or directory"
        },
    ),
    Pattern(
        plugin.PluginBroken,
        "xternal network plugin ",
        r"^(?:NET/Plugin: )?External network plugin (?P<plugin>\S+) (?P<reason>is unsupported)",
        {"2.28+": "NET/Plugin: External network plugin libnccl-net-old.so is unsupported"},
    ),
    Pattern(
        plugin.PluginBroken,
        "NET/OFI ",
        r"^NET/(?P<plugin>OFI) (?P<reason>(?:Could(?: not|n't)|Unable to|Failed to|Creating) (?!.{0,40}shared memory)"
        r".*(?:RC: -?\d+|ERROR: |failed: |optimal provider).*)$",
        {
            "1.0-1.5": "NET/OFI Could not find any optimal provider",
            "1.0+": "NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
            "1.14+": "NET/OFI Creating new endpoint for domain 0x7f9befa99380 failed: Invalid argument",
        },
    ),
    Pattern(
        plugin.PluginBroken,
        "NET/OFI ",
        r"^NET/(?P<plugin>OFI) (?P<reason>(?:No eligible providers were found|Couldn't find any optimal provider"
        r"|Failed to initialize \w+ protocol|aws-ofi-nccl initialization failed"
        r"|Unable to find a protocol that worked|Caught exception in plugin init).*)$",
        {
            "1.9+": "NET/OFI Unable to find a protocol that worked.  Failing initialization.",
            "1.9+ end": "NET/OFI aws-ofi-nccl initialization failed",
            "1.6-1.13": "NET/OFI Couldn't find any optimal provider",
        },
    ),
    Pattern(
        plugin.PluginBroken,
        "NET/",
        r"^NET/(?P<plugin>(?!IB\b|Socket\b|Plugin\b|OFI\b)[\w\-]+) ?:? (?P<reason>.*(?:[Ff]ailed to init|nit(?:ialization)? failed).*)$",
        {
            "gIB": "NET/gIB : Initialization failed: no usable RoCE devices",
            "FasTrak": "NET/FasTrak plugin initialization failed",
        },
    ),
    Pattern(
        plugin.PluginLoaded,
        "oaded ",
        r"^NET/Plugin ?: (?:Loaded net plugin|Successfully loaded external(?: network)? plugin) (?P<plugin>.+?)(?: \(v\d+\))?\.?$",
        {
            "2.13-2.27": "NET/Plugin: Loaded net plugin AWS Libfabric (v9)",
            "2.28+": "NET/Plugin: Successfully loaded external network plugin libnccl-net.so",
        },
    ),
    Pattern(
        plugin.PluginRefused,
        "Failed to initialize NET plugin ",
        r"^Failed to initialize NET plugin (?P<plugin>.+?)\.?$",
        {"2.27+": "Failed to initialize NET plugin IB"},
    ),
    Pattern(
        trouble.VersionMismatch,
        "NCCL version mismatch",
        r"NCCL version mismatch ?:? rank (?P<rank>\d+) version (?P<version>\d+),? rank (?P<other_rank>\d+) version (?P<other_version>\d+)",
        {"variant": "NCCL version mismatch: rank 0 version 22105, rank 1 version 22602"},
    ),
]

TEXT = [
    Pattern(
        usage.BackendNotBuilt,
        " built in",
        r"Distributed package doesn't have (?P<backend>\w+) built in",
        {"1.0+": "RuntimeError: Distributed package doesn't have NCCL built in"},
    ),
    Pattern(
        torch.BackendInUse,
        "distributed_backend=",
        r"^\s*distributed_backend=(?P<backend>\w+)",
        {"Lightning": "distributed_backend=gloo"},
    ),
    Pattern(
        torch.BackendInUse,
        "ackend",
        r"(?:^|[\s(\[])(?:[Dd]istributed [Bb]ackend|get_backend_config\(\)|[Bb]ackend [Cc]onfig)\s?[:=]+\s?'?(?P<backend>[a-z]+(?::[a-z]+)?(?:,[a-z]+:[a-z]+)*)'?\s*$",
        {
            "config": "get_backend_config() = cpu:gloo,cuda:gloo",
            "plain": "[rank0]: distributed backend: gloo",
        },
    ),
    Pattern(
        torch.BackendInUse,
        "ackend: ",
        r"^Distributed environment: \S+  Backend: (?P<backend>\w+)",
        {"accelerate": "Distributed environment: MULTI_GPU  Backend: gloo"},
    ),
    Pattern(
        torch.BackendInUse,
        "No backend type associated with device type cuda",
        r"No backend type associated with device type cuda",
        {"2.0+": "RuntimeError: No backend type associated with device type cuda"},
        {"backend": "cpu:gloo"},
    ),
    Pattern(
        usage.GpusInUse,
        "GPU available: True",
        r"^GPU available: True \(\w+\), used: (?P<gpus>True)",
        {"Lightning": "GPU available: True (cuda), used: True"},
    ),
    Pattern(
        usage.GpusInUse,
        "LOCAL_RANK: ",
        r"^LOCAL_RANK: \d+ - CUDA_VISIBLE_DEVICES: \[(?P<gpus>[\d,]+)\]",
        {"Lightning": "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]"},
    ),
]
