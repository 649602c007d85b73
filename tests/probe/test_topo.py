"""Islands, rank orders, visible devices, and matrices from NCCL's own files."""

from xml.etree import ElementTree

from click.testing import CliRunner

from nccldoctor.cli.topo import command
from nccldoctor.collect import nvml, topo

EIGHT = [f"GPU{i}" for i in range(8)]


def _matrix(near: str, far: str) -> dict[tuple[str, str], str]:
    return {
        (a, b): near if (int(a[3:]) < 4) == (int(b[3:]) < 4) else far
        for a in EIGHT
        for b in EIGHT
        if a != b
    }


def test_two_islands_across_the_socket() -> None:
    for links in (_matrix("NV4", "SYS"), _matrix("PXB", "SYS"), _matrix("XGMI", "PCIE")):
        assert topo.islands(EIGHT, links) == [EIGHT[:4], EIGHT[4:]]
        assert topo.numbers(topo.rank_order(EIGHT, links)) == "0,1,2,3,4,5,6,7"


def test_order_leaves_interleaved_islands_once() -> None:
    links = {
        (a, b): "NV12" if int(a[3:]) % 2 == int(b[3:]) % 2 else "SYS"
        for a in EIGHT
        for b in EIGHT
        if a != b
    }
    assert topo.numbers(topo.rank_order(EIGHT, links)) == "0,2,4,6,1,3,5,7"


def test_a_switch_joins_all() -> None:
    assert topo.islands(EIGHT, _matrix("NV18", "NV18")) == [EIGHT]


def test_without_good_links_each_stands_alone() -> None:
    assert topo.islands(EIGHT[:2], {("GPU0", "GPU1"): "SYS", ("GPU1", "GPU0"): "SYS"}) == [
        ["GPU0"],
        ["GPU1"],
    ]


def test_visible_devices_by_index_uuid_and_mig() -> None:
    gpus = [
        {"index": 0, "uuid": "GPU-aaaa1111"},
        {"index": 1, "uuid": "GPU-bbbb2222", "mig_uuids": ["MIG-cccc"]},
    ]
    assert nvml.visible(gpus, None) == [0, 1]
    assert nvml.visible(gpus, "1,0") == [1, 0]
    assert nvml.visible(gpus, "GPU-bbbb") == [1]
    assert nvml.visible(gpus, "MIG-cccc") == [1]
    assert nvml.visible(gpus, "0,7,1") == [0]
    assert nvml.visible(gpus, "") == []


def test_matrix_from_a_topology_file() -> None:
    switch = {"count": "12", "tclass": "0x068000"}
    nodes = [
        ("system", (), {}),
        ("cpu", (0,), {}),
        ("pci", (0, 0), {"busid": "a"}),
        ("gpu", (0, 0, 0), {"dev": "0"}),
        ("nvlink", (0, 0, 0, 0), switch),
        ("pci", (0, 1), {"busid": "b"}),
        ("gpu", (0, 1, 0), {"dev": "1"}),
        ("nvlink", (0, 1, 0, 0), switch),
        ("cpu", (1,), {}),
        ("pci", (1, 0), {"busid": "c"}),
        ("gpu", (1, 0, 0), {"dev": "2"}),
    ]
    devices, links = topo.from_nodes(nodes)
    assert devices == ["GPU0", "GPU1", "GPU2"]
    assert links["GPU0", "GPU1"] == "NV12"
    assert links["GPU0", "GPU2"] == "SYS"


def test_command_reads_saved_text(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = "\t" + "\t".join(EIGHT) + "\tCPU Affinity\n"
    links = _matrix("PXB", "SYS")
    for a in EIGHT:
        text += a + "\t" + "\t".join(" X " if a == b else links[a, b] for b in EIGHT) + "\t0-31\n"
    file = tmp_path / "topo.txt"
    file.write_text(text)
    result = CliRunner().invoke(command, [str(file)])
    assert result.exit_code == 0, result.output
    assert "2 islands: GPU0 GPU1 GPU2 GPU3 | GPU4 GPU5 GPU6 GPU7" in result.output
    again = CliRunner().invoke(command, [str(file), "--json", str(tmp_path / "topo.json")])
    assert again.exit_code == 0
    from_json = CliRunner().invoke(command, [str(tmp_path / "topo.json")])
    assert "2 islands" in from_json.output
    drawn = CliRunner().invoke(command, [str(file), "--svg", str(tmp_path / "topo.svg")])
    assert drawn.exit_code == 0, drawn.output
    root = ElementTree.parse(tmp_path / "topo.svg").getroot()  # noqa: S314, our own file
    assert root.tag.endswith("svg")
    assert (tmp_path / "topo.svg").read_text().count("GPU7") > 1
