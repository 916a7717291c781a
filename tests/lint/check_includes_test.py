"""The include-direction check accepts this tree and fails on each kind of breach."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_includes

ROOT = Path(__file__).resolve().parents[2]


class CheckIncludes(unittest.TestCase):
    def breaches_of(self, file: str, text: str) -> list[str]:
        """The breaches of a tree that holds all stations and one file."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for station in (
                *("base", "config", "device", "stats", "policy", "model", "gate"),
                *("engine", "tasking", "service", "calls"),
            ):
                (root / "src" / station).mkdir(parents=True)
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, "utf-8")
            return check_includes.breaches(root)

    def assert_allowed(self, file: str, text: str) -> None:
        self.assertEqual(self.breaches_of(file, text), [])

    def assert_breach(self, file: str, text: str, message: str) -> None:
        found = self.breaches_of(file, text)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(file), found[0])
        self.assertIn(message, found[0])

    def test_this_tree_has_no_breach(self) -> None:
        self.assertEqual(check_includes.breaches(ROOT), [])

    def test_stations_may_include_what_lies_behind_them(self) -> None:
        self.assert_allowed("src/service/a.cpp", '#include "policy/policy.hpp"\n')
        self.assert_allowed("src/calls/c_api/a.cpp", '#include "engine/probe.hpp"\n')
        self.assert_allowed("src/stats/a.cpp", '#include "base/clock.hpp"\n')
        self.assert_allowed("src/stats/a.cpp", '#include "config/glob.hpp"\n')
        self.assert_allowed("src/service/a.cpp", "#include <ioweave/ioweave.h>\n")

    def test_only_its_drivers_construct_a_policy(self) -> None:
        self.assert_allowed("src/gate/a.hpp", "policy::Policy policy_;\n")
        self.assert_allowed("python/src/policy.hpp", "policy::Policy policy_;\n")
        self.assert_allowed("python/ioweave/simulated.py", "policy = Policy(log)\n")
        self.assert_allowed("python/ioweave/runtime.py", "gate = FlowPolicy(log)\n")
        for line in ("policy = Policy(log)", "policy = _core.Policy(log)"):
            self.assert_breach("python/ioweave/runtime.py", line + "\n", "must not construct")
        self.assert_breach("python/src/a.hpp", "policy::Policy policy_;\n", "must not construct")
        self.assert_allowed("src/service/a.hpp", "const policy::Policy& policy_;\n")
        for line in (
            "policy::Policy policy_;",
            "  policy::Policy policy{};",
            "auto it = std::make_unique<policy::Policy>();",
            "std::optional<policy::Policy> policy_;",
            "policy::Policy policies[2];",
        ):
            self.assert_breach("src/service/a.hpp", line + "\n", "construct a policy")

    def test_the_three_in_the_middle_never_include_each_other(self) -> None:
        for station in ("gate", "engine", "tasking"):
            for other in {"gate", "policy", "engine", "tasking"} - {station, "policy"}:
                file = f"src/{station}/a.cpp"
                self.assert_breach(file, f'#include "{other}/x.hpp"\n', "may include only")
        for station in ("policy", "engine", "tasking"):
            for other in {"policy", "engine", "tasking"} - {station}:
                file = f"src/{station}/a.cpp"
                self.assert_breach(file, f'#include "{other}/x.hpp"\n', "may include only")

    def test_nothing_includes_what_lies_before_it(self) -> None:
        self.assert_breach("src/engine/a.cpp", '#include "service/a.hpp"\n', "may include only")
        self.assert_breach("src/base/a.hpp", '#include "stats/a.hpp"\n', "may include only")
        self.assert_breach("src/config/a.hpp", '#include "device/a.hpp"\n', "may include only")
        self.assert_breach("src/device/a.hpp", '#include "stats/a.hpp"\n', "may include only")
        self.assert_breach("src/service/a.hpp", '#include "calls/a.hpp"\n', "may include only")

    def test_public_headers_stand_alone(self) -> None:
        self.assert_allowed("include/ioweave/a.hpp", "#include <ioweave/ioweave.h>\n")
        self.assert_breach("include/ioweave/a.hpp", '#include "base/a.hpp"\n', "may include only")

    def test_apps_include_nothing_of_ours(self) -> None:
        self.assert_breach("apps/a.cpp", "#include <ioweave/ioweave.h>\n", "nothing of ours")
        self.assert_breach("apps/a.cpp", '#include "base/clock.hpp"\n', "nothing of ours")

    def test_bench_includes_only_public_headers_base_and_model(self) -> None:
        self.assert_allowed("bench/a.cpp", "#include <ioweave/ioweave.h>\n#include <liburing.h>\n")
        self.assert_allowed("bench/a.cpp", '#include "model/overlap.hpp"\n')
        self.assert_breach(
            "bench/a.cpp", '#include "engine/a.hpp"\n', "may include only base, ioweave"
        )

    def test_python_includes_only_public_headers_policy_model_and_base(self) -> None:
        self.assert_allowed("python/src/a.cpp", '#include "policy/policy.hpp"\n')
        self.assert_allowed("python/src/a.cpp", '#include "model/overlap.hpp"\n')
        self.assert_allowed("python/src/a.cpp", '#include "ioweave/ioweave.hpp"\n')
        self.assert_breach("python/src/a.cpp", '#include "service/a.hpp"\n', "may include only")

    def test_model_includes_base_and_serves_programs(self) -> None:
        self.assert_allowed("src/model/a.cpp", '#include "base/assert.hpp"\n')
        self.assert_breach("src/model/a.cpp", '#include "policy/policy.hpp"\n', "may include only")
        for place in ("src/cli", "apps/tiom", "python/src"):
            self.assert_allowed(f"{place}/a.cpp", '#include "model/overlap.hpp"\n')
        for place in ("src/policy", "src/service", "apps"):
            self.assert_breach(f"{place}/a.cpp", '#include "model/overlap.hpp"\n', "may include")

    def test_policy_and_model_are_closed_to_io_clocks_and_threads(self) -> None:
        for station in ("policy", "model"):
            file = f"src/{station}/a.cpp"
            self.assert_allowed(file, "#include <vector>\n#include <cerrno>\n")
            for header in ("mutex", "chrono", "unistd.h", "sys/uio.h"):
                self.assert_breach(file, f"#include <{header}>\n", "pure logic")

    def test_a_path_that_climbs_is_a_breach(self) -> None:
        self.assert_breach("src/engine/a.cpp", '#include "../policy/a.hpp"\n', "climbs")

    def test_a_station_without_a_rule_is_a_breach(self) -> None:
        self.assertIn("src/new", self.breaches_of("src/new/a.cpp", "\n")[0])


if __name__ == "__main__":
    unittest.main()
