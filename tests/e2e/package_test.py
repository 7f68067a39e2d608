"""The Debian package of the build that is tested."""
import pathlib
import re
import subprocess

import server_process


def run(*command, **options):
  ended = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
  assert ended.returncode == 0, ended
  return ended.stdout


def test_it_has_the_server_the_command_and_the_service(tmp_path):
  build = next(folder for folder in pathlib.Path(server_process.binary()).parents
               if (folder / "CPackConfig.cmake").exists())
  run("cpack", "--config", str(build / "CPackConfig.cmake"), "-B", str(tmp_path))
  (package,) = tmp_path.glob("formwork_*.deb")
  needs = run("dpkg-deb", "--field", str(package), "Depends")
  assert re.search(r"libc6 \(>= 2", needs) and "libgrpc++1.51" in needs
  run("dpkg-deb", "--raw-extract", str(package), str(tmp_path / "root"))
  root = tmp_path / "root"

  help_text = run(str(root / "usr/bin/formwork-server"), "--help")
  assert "formwork" in run(str(root / "usr/bin/formwork"), "--help")
  (unit,) = root.glob("usr/lib/systemd/system/*.service")
  program = re.search(r"^ExecStart=(\S+)$", unit.read_text(), re.MULTILINE).group(1)
  assert (root / program[1:]).exists()
  settings = re.search(r"^EnvironmentFile=-(\S+)$", unit.read_text(), re.MULTILINE).group(1)
  assert (root / "DEBIAN/conffiles").read_text() == settings + "\n"
  named = re.findall(r"FORMWORK_\w+(?==)", unit.read_text() + (root / settings[1:]).read_text())
  assert len(named) > 3
  for name in named:
    flag = "--" + name.removeprefix("FORMWORK_").lower().replace("_", "-")
    assert re.search(re.escape(flag) + r"\b", help_text), flag
