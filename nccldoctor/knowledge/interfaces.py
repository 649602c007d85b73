"""Network interfaces that are not meant for traffic between hosts, by the beginning of their names."""

from collections.abc import Mapping

UNFIT: Mapping[str, str] = {
    "lo": "loopback",
    "docker": "a container bridge",
    "br-": "a container bridge",
    "podman": "a container bridge",
    "cni": "a container bridge",
    "flannel": "a container overlay",
    "cali": "a container's own end",
    "cilium": "a container overlay",
    "lxc": "a container's own end",
    "veth": "a container's own end",
    "virbr": "a bridge of virtual machines",
    "vmnet": "a bridge of virtual machines",
    "vnet": "a bridge of virtual machines",
    "tun": "a tunnel",
    "tap": "a tunnel",
    "wg": "a tunnel",
    "tailscale": "a tunnel",
    "zt": "a tunnel",
    "wl": "wireless",
    "usb": "a management port",
    "enx": "a USB or management port",
    "idrac": "a management port",
    "bmc": "a management port",
}
"""Source: systemd's and the container engines' naming rules."""


def unfit(name: str) -> str | None:
    """What kind of interface this is when it is unfit; None when it may be fit."""
    if name == "lo" or name.startswith("lo:"):
        return UNFIT["lo"]
    return next(
        (what for prefix, what in UNFIT.items() if prefix != "lo" and name.startswith(prefix)), None
    )


def link_local(address: str) -> bool:
    """Is the address one that no router forwards?"""
    return address.startswith(("169.254.", "fe80:"))


def loopback(address: str) -> bool:
    return address.startswith("127.") or address in ("::1", "localhost")
