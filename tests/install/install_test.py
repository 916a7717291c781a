"""The installed tree, as users meet it: headers, pkg-config, find_package, symbols, command.

Each case installs to one prefix and then moves the tree, which proves on the way that it does not
care where it lies. ctest runs each with IOWEAVE_BUILD, IOWEAVE_VERSION, CC and CXX set.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BUILD = Path(os.environ["IOWEAVE_BUILD"])
VERSION = os.environ["IOWEAVE_VERSION"]
CC = os.environ["CC"]
CXX = os.environ["CXX"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def output_of(*command: str | Path, **environment: str | Path) -> str:
    """What a command printed; a failure shows all of it."""
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | {name: str(value) for name, value in environment.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def exported_by(library: Path) -> set[str]:
    """The symbols a library offers, without those that only name a version."""
    lines = output_of("nm", "-D", "--defined-only", library).splitlines()
    fields = [line.split() for line in lines]
    return {name.partition("@")[0] for *_, kind, name in fields if kind != "A"}


def mpi_folders() -> list[str]:
    """The options by which compilers find an MPI's header; none where there is no MPI."""
    for package in ("ompi-c", "mpich"):
        found = subprocess.run(
            ["pkg-config", "--cflags-only-I", package],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            text=True,
        )
        if found.returncode == 0:
            return [word.replace("-I", "-isystem", 1) for word in found.stdout.split()]
    return []


def listing(guide: str, language: str) -> tuple[str, str]:
    """The first listing of a guide in a language: what it includes, and what stands behind it."""
    text = (SOURCE / "docs" / guide).read_text("utf-8")
    first = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert first is not None, language
    head, _, body = first[1].partition("\n\n")
    return head, body


def let_no_file_grow_beyond_a_mebibyte() -> None:
    """In a child, before its program: writes fail with EFBIG there."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


class InstalledTree(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)
        self.prefix = self.work / "moved"
        output_of("cmake", "--install", BUILD, "--prefix", self.work / "first")
        (self.work / "first").rename(self.prefix)
        # lib, lib64 or lib/x86_64-linux-gnu, as GNUInstallDirs found right.
        self.libraries = next(self.prefix.rglob("libioweave.so")).parent

    def test_headers_are_the_public_ones_and_stand_alone(self) -> None:
        include = self.prefix / "include"
        public = {p.relative_to(SOURCE / "include") for p in SOURCE.glob("include/ioweave/*.h*")}
        installed = {p.relative_to(include) for p in include.rglob("*") if p.is_file()}
        parts = {p for p in installed if p.parent.name in ("fortran", "openmp")}
        self.assertEqual(installed - parts, public)
        for header in sorted(public):
            compilers = [[CXX, "-std=c++20", "-x", "c++"]]
            if header.suffix == ".h":
                compilers.append([CC, "-std=c11", "-D_DEFAULT_SOURCE", "-x", "c"])
            for compiler in compilers:
                if header.name == "openmp.h":
                    compiler.append("-fopenmp")
                if header.name == "mpiio.h":
                    compiler += mpi_folders()
                    if compiler[-1] in ("c", "c++"):
                        continue  # no MPI is here
                probe = self.work / "probe"
                probe.write_text(f"#include <{header}>\n#include <{header}>\n", "utf-8")
                output_of(*compiler, *WARNINGS, "-I", include, "-fsyntax-only", probe)

    def test_fortran_modules_are_built_from_what_is_installed(self) -> None:
        compiler = shutil.which("gfortran")
        if compiler is None:
            self.skipTest("no gfortran")
        sources = self.prefix / "include/ioweave/fortran"
        program = self.work / "program"
        probe = self.work / "probe.f90"
        probe.write_text(
            "use ioweave\nuse ioweave_openmp\ntype(c_ptr) :: service\n"
            "if (iow_service_open(service) /= 0) stop 1\n"
            "print '(a)', iow_version()\ncall iow_service_close(service)\n"
            "if (iow_omp_end(service) == 0) stop 1\nend\n",
            "utf-8",
        )
        output_of(
            *(compiler, "-fopenmp", "-J", self.work, "-I", self.prefix / "include"),
            *(sources / name for name in ("ioweave.f90", "ioweave_openmp.f90", "ioweave_openmp.c")),
            *(probe, "-o", program, "-L", self.libraries, "-lioweave"),
        )
        self.assertEqual(output_of(program, LD_LIBRARY_PATH=self.libraries).strip(), VERSION)

    def test_c_consumer_by_pkg_config(self) -> None:
        path = {"PKG_CONFIG_PATH": self.libraries / "pkgconfig"}
        self.assertEqual(
            output_of("pkg-config", "--modversion", "ioweave", **path).strip(), VERSION
        )
        flags = output_of("pkg-config", "--cflags", "--libs", "ioweave", **path).split()
        program = self.work / "consumer"
        output_of(CC, "-std=gnu11", *WARNINGS, HERE / "c_consumer/main.c", "-o", program, *flags)
        self.assertEqual(output_of(program, LD_LIBRARY_PATH=self.libraries).strip(), VERSION)

    def check_that_it_says_what_failed(self, *compiler: str | Path, name: str, text: str) -> None:
        """A program, which calls iow_lease_append() until a write has failed."""
        (self.work / name).write_text(text, "utf-8")
        program = self.work / "program"
        libraries = ("-L", self.libraries, "-lioweave")
        output_of(*compiler, self.work / name, "-o", program, *libraries)
        ran = subprocess.run(
            [program],
            cwd=self.work,
            env=os.environ | {"LD_LIBRARY_PATH": str(self.libraries)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            restore_signals=False,
            preexec_fn=let_no_file_grow_beyond_a_mebibyte,
        )
        said = r"cannot write at offset \d+ of 'result.bin': File too large"
        self.assertRegex(ran.stdout.strip(), f"^{said}$")

    def test_the_guide_to_write_streams_says_in_c_what_failed(self) -> None:
        head, body = listing("streams.md", "c")
        self.check_that_it_says_what_failed(
            *(CC, "-std=gnu11", *WARNINGS),
            *("-I", str(self.prefix / "include")),
            name="program.c",
            text=f"""#include <stdio.h>
                #include <string.h>
                {head}
                static void fail(const char* text) {{ puts(text != NULL ? text : "NULL"); }}
                static uint64_t compute(int i, void* data, uint64_t bytes) {{
                  memset(data, i, bytes);
                  return bytes;
                }}
                int main(void) {{
                  iow_service* service;
                  if (iow_service_open(&service, NULL, NULL) != 0) return 1;
                  const int n = 100;
                  {body}
                  iow_service_close(service);
                  return 0;
                }}
            """,
        )

    def test_the_guide_to_write_streams_says_in_cpp_what_failed(self) -> None:
        head, body = listing("streams.md", "cpp")
        self.check_that_it_says_what_failed(
            *(CXX, "-std=c++20", *WARNINGS),
            *("-I", str(self.prefix / "include")),
            name="program.cpp",
            text=f"""{head}
                #include <algorithm>
                #include <cstdio>
                static size_t compute(int i, std::span<double> values) {{
                  std::fill(values.begin(), values.end(), i);
                  return values.size();
                }}
                int main() {{
                  try {{
                    ioweave::Service service;
                    const int n = 100;
                    {body}
                  }} catch (const std::system_error& error) {{
                    std::puts(error.what());
                  }}
                }}
            """,
        )

    def test_the_guide_to_write_streams_says_in_fortran_what_failed(self) -> None:
        compiler = shutil.which("gfortran")
        if compiler is None:
            self.skipTest("no gfortran")
        head, body = listing("streams.md", "fortran")
        module = self.prefix / "include/ioweave/fortran/ioweave.f90"
        self.check_that_it_says_what_failed(
            *(compiler, "-J", str(self.work), str(module)),
            name="program.f90",
            text=f"""{head}
                implicit none
                integer, parameter :: n = 100, many = 300000
                integer :: i
                integer(c_int) :: file
                {body}
                call iow_service_close(service)
                contains
                subroutine compute(step, values)
                  integer, intent(in) :: step
                  real(8), intent(out) :: values(:)
                  values = step
                end subroutine
                end
            """,
        )

    def configure_cpp_consumer(self, *options: str) -> Path:
        build = self.work / "cpp"
        output_of(
            "cmake",
            *("-S", HERE / "cpp_consumer", "-B", build),
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={CXX}",
            *options,
        )
        self.assertIn(f"ioweave_DIR:PATH={self.prefix}", (build / "CMakeCache.txt").read_text())
        return build

    def test_cpp_consumer_by_find_package(self) -> None:
        build = self.configure_cpp_consumer()
        output_of("cmake", "--build", build)
        self.assertEqual(output_of(build / "consumer").strip(), VERSION)

    def test_find_package_refuses_another_minor_version(self) -> None:
        with self.assertRaisesRegex(AssertionError, "compatible with requested version"):
            self.configure_cpp_consumer("-DWANTED=0.99")

    def test_library_exports_only_iow_symbols(self) -> None:
        exported = exported_by(self.libraries / "libioweave.so")
        self.assertIn("iow_version_string", exported)
        self.assertEqual({name for name in exported if not name.startswith("iow_")}, set())

    def test_library_exports_every_function_of_the_header(self) -> None:
        headers = [header.read_text("utf-8") for header in (SOURCE / "include/ioweave").glob("*.h")]
        declared = set(
            re.findall(r"^IOW_API\b[^;(]*?\b(iow_\w+)\(", "\n".join(headers), re.MULTILINE)
        )
        self.assertGreater(len(declared), 10)
        self.assertEqual(declared, exported_by(self.libraries / "libioweave.so"))

    def test_interposer_leaks_no_cpp_symbols(self) -> None:
        interposer = self.libraries / "ioweave/libioweave_preload.so"
        exported = exported_by(interposer)
        self.assertIn("read", exported)
        self.assertEqual({name for name in exported if name.startswith("_Z")}, set())
        needed = output_of("readelf", "--dynamic", interposer)
        self.assertNotIn("libstdc++", needed, "every wrapped program would load libstdc++")

    def test_nothing_refers_to_the_build_folder(self) -> None:
        for path in self.prefix.rglob("*"):
            if not path.is_file() or path.is_symlink():
                continue
            if path.suffix in (".cmake", ".pc"):
                self.assertNotIn(str(SOURCE), path.read_text("utf-8"), path)
            elif path.read_bytes()[:4] == b"\x7fELF":
                needs = output_of("readelf", "--dynamic", path)
                self.assertNotIn(str(SOURCE), needs, path)
                if "(NEEDED)" in needs:  # the command may be statically linked
                    self.assertNotIn("not found", output_of("ldd", path), path)

    def test_command_finds_its_tree(self) -> None:
        command = self.prefix / "bin/ioweave"
        self.assertIn(VERSION, output_of(command, "--version"))
        for option in ("--preload", "--cmake", "--pkgconfig"):
            path = Path(output_of(command, "path", option).strip()).resolve()
            self.assertTrue(path.exists(), path)
            self.assertTrue(path.is_relative_to(self.prefix.resolve()), path)


if __name__ == "__main__":
    unittest.main()
