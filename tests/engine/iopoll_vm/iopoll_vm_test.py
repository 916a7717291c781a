"""Boots a virtual machine whose NVMe has a polled queue, and sees io_uring's IOPOLL poll there.

Usage: iopoll_vm_test.py --init FILE --check FILE --engine-test FILE --ioweave FILE

Takes qemu (without KVM) and a kernel: the newest /boot/vmlinuz-*-cloud-amd64, or the one that
IOWEAVE_TEST_VM_KERNEL names. Its modules, where it needs any, are those of the folder that
IOWEAVE_TEST_VM_MODULES names, of lib/modules/VERSION beside the kernel's own folder, or of
/lib/modules/VERSION. The machine has two NVMe disks, one with ext4 where mke2fs is installed and
one without a file system, no network, and an initramfs with our programs.

Exit status 77 with "SKIP: reason" where something is missing.
"""

import argparse
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

#: A boot and all commands take a tenth of that.
TIME_LIMIT_S = 540
DISK_BYTES = 128 << 20
#: With them a kernel finds the disks, and ext4 on one of them.
MODULES = ("nvme", "crc32c_generic", "crc32c_cryptoapi", "crc32c", "ext4")

HOW_TO_INSTALL = "apt-get install --no-install-recommends qemu-system-x86 e2fsprogs"
HOW_TO_GET_A_KERNEL = """\
A kernel need not be installed:
  cd /var/tmp && apt-get download $(apt-cache depends linux-image-cloud-amd64 |
    sed -n 's/.*Depends: \\(linux-image.*\\)/\\1/p' | head -n 1)
  dpkg-deb -x linux-image-*-cloud-amd64_*.deb vm-kernel
  export IOWEAVE_TEST_VM_KERNEL=$(echo /var/tmp/vm-kernel/boot/vmlinuz-*)"""


def skip(reason: str) -> None:
    """Ends the test."""
    print(f"SKIP: {reason}")
    sys.exit(77)


def find_tool(name: str) -> str | None:
    """The path of a program, also of one for administrators."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def find_kernel() -> Path:
    """The kernel to boot; ends the test where there is none."""
    named = os.environ.get("IOWEAVE_TEST_VM_KERNEL")
    if named:
        if not Path(named).is_file():
            skip(f"IOWEAVE_TEST_VM_KERNEL names {named}, which is no file")
        return Path(named)
    installed = [p for p in Path("/boot").glob("vmlinuz-*-cloud-amd64") if os.access(p, os.R_OK)]
    if not installed:
        skip(f"no readable /boot/vmlinuz-*-cloud-amd64 to boot. {HOW_TO_GET_A_KERNEL}")
    return max(installed, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])


def find_modules(kernel: Path) -> Path | None:
    """The folder of the kernel's modules, or None: then it has to do without."""
    version = kernel.name.partition("-")[2]
    named = os.environ.get("IOWEAVE_TEST_VM_MODULES")
    places = [Path(named)] if named else []
    places += [kernel.parent.parent / "lib/modules" / version, Path("/lib/modules") / version]
    return next((place for place in places if place.is_dir()), None)


def module_name(path: str) -> str:
    """The name of the module in a file."""
    return Path(path).name.partition(".")[0].replace("-", "_")


def modules_to_load(folder: Path) -> list[str]:
    """Files below the folder in the order in which they can be loaded: what is not built in."""
    # modules.dep does not exist before depmod has run, as in a package that was only unpacked.
    files = {module_name(p.name): str(p.relative_to(folder)) for p in folder.rglob("*.ko*")}
    ordered: list[str] = []

    def add(name: str) -> None:
        path = files.get(name)
        if path is None or path in ordered:
            return
        for needed in needed_by(folder / path):
            add(needed)
        ordered.append(path)

    for name in MODULES:
        add(name)
    return ordered


def needed_by(module: Path) -> list[str]:
    """The modules that one names as its dependencies, in its section .modinfo."""
    found = re.search(rb"\0depends=([^\0]*)\0", module.read_bytes())
    return [name.replace("-", "_") for name in found[1].decode().split(",")] if found else []


def libraries_of(program: Path) -> list[str]:
    """The shared libraries that a program loads, and its loader; none of a static one."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", done.stdout)


class Initramfs:
    """The files of the machine, as an archive in the format newc of cpio."""

    def __init__(self) -> None:
        self._archive = bytearray()
        self._names: set[str] = set()
        self._folder("/dev")
        self._entry("/dev/console", stat.S_IFCHR | 0o600, device=(5, 1))

    def _folder(self, name: str) -> None:
        if name in self._names or name == "/":
            return
        self._folder(str(Path(name).parent))
        self._entry(name, stat.S_IFDIR | 0o755)

    def _entry(
        self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        self._names.add(name)
        path = name.lstrip("/").encode() + b"\0"
        inode = len(self._names)
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        self._archive += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        self._pad()
        self._archive += data
        self._pad()

    def _pad(self) -> None:
        self._archive += b"\0" * (-len(self._archive) % 4)

    def add(self, name: str, data: bytes) -> None:
        """A file that may be executed; one that is there already stays."""
        if name not in self._names:
            self._folder(str(Path(name).parent))
            self._entry(name, stat.S_IFREG | 0o755, data)

    def add_program(self, name: str, program: Path) -> None:
        """A program with its libraries, without debug information where strip is installed."""
        self.add(name, stripped(program))
        for library in libraries_of(program):
            self.add(library, stripped(Path(library)))

    def add_lines(self, name: str, lines: Iterable[str]) -> None:
        """A text file."""
        self.add(name, "".join(f"{line}\n" for line in lines).encode())

    def write(self, path: Path) -> None:
        """Ends the archive."""
        self._entry("TRAILER!!!", 0)
        path.write_bytes(self._archive)


def stripped(file: Path) -> bytes:
    """What a file holds without debug information."""
    strip = find_tool("strip")
    if strip is None:
        return file.read_bytes()
    with tempfile.NamedTemporaryFile() as small:
        done = subprocess.run(
            [strip, "--strip-debug", "-o", small.name, file], capture_output=True, check=False
        )
        return Path(small.name).read_bytes() if done.returncode == 0 else file.read_bytes()


def commands(has_ext4: bool) -> dict[str, list[str]]:
    """The command lines to run in the machine, by name."""
    listed = {"block_device": ["/bin/check", "/dev/nvme1n1"]}
    if has_ext4:
        listed["ext4"] = ["/bin/check", "/data/file"]
        listed["doctor"] = ["/bin/ioweave", "doctor", "/data"]
        listed["engine_test"] = ["/bin/engine_test", "--gtest_filter=Iopoll.*:PolledSize.*"]
    return listed


def prepare(
    folder: Path, options: argparse.Namespace, modules: Path | None
) -> dict[str, list[str]]:
    """Makes the disks and the initramfs. Returns the commands that the machine will run."""
    for disk in ("ext4", "raw"):
        with (folder / disk).open("wb") as sparse:
            sparse.truncate(DISK_BYTES)
    mke2fs = find_tool("mke2fs")
    if mke2fs is not None:
        subprocess.run([mke2fs, "-q", "-F", "-t", "ext4", folder / "ext4"], check=True)
    else:
        print("No mke2fs: nothing is tried on a file system.")
    listed = commands(mke2fs is not None)
    image = Initramfs()
    for name in ("init", "check", "engine_test", "ioweave"):
        image.add_program("/init" if name == "init" else f"/bin/{name}", getattr(options, name))
    loaded = modules_to_load(modules) if modules is not None else []
    for path in loaded:
        image.add(f"/modules/{path}", (modules / path).read_bytes() if modules else b"")
    image.add_lines(
        "/modules.list",
        # What the kernel's command line says of a module, modprobe would pass on.
        [f"/modules/{p}" + " poll_queues=1" * (module_name(p) == "nvme") for p in loaded],
    )
    image.add_lines("/disks.list", ["/dev/nvme0n1" + " ext4" * bool(mke2fs), "/dev/nvme1n1"])
    image.add_lines("/commands.list", [f"{name} {' '.join(c)}" for name, c in listed.items()])
    image.write(folder / "initramfs")
    return listed


def boot(qemu: str, kernel: Path, folder: Path) -> str:
    """Runs the machine until it switches itself off. Returns what its console showed."""
    console = folder / "console"
    command = [qemu, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "512"]
    command += ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
    command += ["-nic", "none", "-serial", f"file:{console}"]
    for disk in ("ext4", "raw"):
        command += ["-drive", f"file={folder / disk},format=raw,if=none,id={disk},cache=unsafe"]
        command += ["-device", f"nvme,drive={disk},serial={disk}"]
    command += ["-kernel", str(kernel), "-initrd", str(folder / "initramfs"), "-append"]
    command += ["console=ttyS0 quiet panic=-1 nvme.poll_queues=1"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=TIME_LIMIT_S, check=False)
        if done.returncode != 0:
            print(f"qemu ended with {done.returncode}")
    except subprocess.TimeoutExpired:
        print(f"The machine did not end within {TIME_LIMIT_S} s.")
    return console.read_text(errors="replace") if console.exists() else ""


def judge(text: str, listed: dict[str, list[str]]) -> int:
    """Whether every command did what it should. The exit status."""
    ends = dict(re.findall(r"^vm: end (\S+) (\d+)\s*$", text, re.MULTILINE))
    # doctor: ends with 2 here, since the interposer is not in the machine.
    failed = [
        n for n in listed if ends.get(n) != "0" and not (n == "doctor" and ends.get(n) == "2")
    ]
    if "doctor" in listed and not re.search(r"^ok +io_uring\+iopoll on /data\s*$", text, re.M):
        failed.append("doctor's finding on IOPOLL")
    for name in failed:
        print(f"FAILED: {name}: {ends.get(name, 'did not end')}")
    return 1 if failed else 0


def main() -> int:
    """Runs the test."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("--init", "--check", "--engine-test", "--ioweave"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args()
    qemu = find_tool("qemu-system-x86_64")
    if os.uname().machine != "x86_64":
        skip("the virtual machine would be one with x86-64, our programs are not")
    if qemu is None:
        skip(f"no qemu-system-x86_64: {HOW_TO_INSTALL}")
        return 77
    kernel = find_kernel()
    modules = find_modules(kernel)
    print(f"{kernel}, modules in {modules}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ioweave-vm-") as name:
        folder = Path(name)
        listed = prepare(folder, options, modules)
        text = boot(qemu, kernel, folder)
    print(text.replace("\r", ""))
    return judge(text.replace("\r", ""), listed)


if __name__ == "__main__":
    sys.exit(main())
