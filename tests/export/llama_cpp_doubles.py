"""Programs that stand in for those of llama.cpp: what they do is a few lines of Python."""

import sys
from pathlib import Path


def program(folder: Path, name: str, code: str) -> Path:
    """An executable that runs the code, with ``json``, ``os``, ``shutil`` and ``sys`` at hand."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport json, os, shutil, sys\n{code}\n")
    path.chmod(0o755)
    return path


def checkout(folder: Path, script: str) -> Path:
    """A folder that looks like a checkout of llama.cpp."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "convert_hf_to_gguf.py").write_text(script)
    return folder


def handing_out(prepared: Path) -> str:
    """A converter that knows the answer: ``prepared/tiny-<type>.gguf``, if it is asked as llama.cpp's can be."""
    return f"""
import argparse, os, shutil
parser = argparse.ArgumentParser()
parser.add_argument("model")
for name in ("--outfile", "--outtype", "--model-name"):
    parser.add_argument(name, required=True)
asked = parser.parse_args()
assert os.path.isfile(asked.model + "/model.safetensors")
shutil.copy({str(prepared)!r} + f"/{{asked.model_name}}-{{asked.outtype}}.gguf", asked.outfile)
"""
