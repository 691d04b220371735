"""Changing the machine, gaining rights, and reaching parts of the kernel that no program needs."""

from typing import Final

from rl.sandbox.attacks.attack import read_attacks

ATTACKS: Final = read_attacks(
    """
### new_namespaces: a new user namespace is made, which gives every capability in it
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000):
    if libc.unshare(flag) == 0 or libc.unshare(flag | 0x10000000) == 0:
        won(f"unshare {flag:#x}")

### clone_namespaces: clone or clone3 makes a new user namespace
clone = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
pid = libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0) if clone else -1
if pid == 0:
    os._exit(0)
if pid > 0:
    won("clone")
class Arguments(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
                "flags pidfd child parent signal stack size tls tids count cgroup".split()]
arguments = Arguments(flags=0x10000000, signal=17)
pid = libc.syscall(435, ctypes.byref(arguments), ctypes.sizeof(arguments))
if pid == 0:
    os._exit(0)
if pid > 0:
    won("clone3")

### enter_namespaces: the namespaces of another process are entered
for pid in (1, os.getppid(), facts["parent"], facts["victim"]):
    for name in ("user", "mnt", "net", "pid"):
        descriptor = attempt(os.open, f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        if descriptor is not None and libc.setns(descriptor, 0) == 0:
            won(f"{name} of process {pid}")

### mount: something is mounted or unmounted
os.makedirs("m", exist_ok=True)
if libc.mount(b"none", b"m", b"tmpfs", 0, None) == 0 or libc.mount(b"/", b"m", None, 4096, None) == 0:
    won("mount")
if libc.mount(b"none", b"/", None, 32 | 4096, None) == 0 or libc.mount(b"none", b"/usr/bin", None, 32 | 4096, None) == 0:
    won("remount")
if libc.umount2(b"/proc", 2) == 0 or libc.umount2(b"/tmp", 2) == 0:
    won("umount")
if libc.syscall(428, -100, b"/", 1) >= 0 or libc.syscall(430, b"tmpfs", 0) >= 0:
    won("open_tree or fsopen")

### change_root: the root folder is changed
if attempt(lambda: os.chroot("/tmp") or True) or attempt(lambda: os.chroot(".") or True):
    won("chroot")
if libc.pivot_root(b".", b".") == 0:
    won("pivot_root")

### core_pattern: the kernel is told which program to start when one crashes
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/sys/kernel/uevent_helper"):
    if attempt(os.open, path, os.O_WRONLY) is not None:
        won(path)

### kernel_settings: a setting of the kernel is changed
for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        if attempt(os.open, f"{folder}/{name}", os.O_WRONLY) is not None:
            won(f"{folder}/{name}")
for path in ("/proc/sysrq-trigger", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/attr/current", "/proc/irq/0"):
    if attempt(os.open, path, os.O_WRONLY) is not None:
        won(path)

### set_user_id: a set-user-ID program gives the rights of root
if libc.prctl(39, 0, 0, 0, 0) != 1:
    won("new privileges are allowed")
import subprocess
options = {"capture_output": True, "timeout": 1, "stdin": subprocess.DEVNULL}
done = attempt(lambda: subprocess.run(["/usr/bin/su", "-c", "id -u"], **options))
if done and done.stdout.strip() == b"0":
    won("su")
if 0 in (*os.getresuid(), *os.getresgid()):
    won("root")

### capabilities: the program holds a capability, or becomes root
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
sets = (ctypes.c_uint32 * 6)()
if libc.capget(header, sets) == 0 and any(sets):
    won([hex(each) for each in sets])
for change in (os.setuid, os.setgid, os.seteuid, os.setegid):
    if attempt(lambda: change(0) or True):
        won(change.__name__)
if attempt(lambda: os.setgroups([0]) or True):
    won("setgroups")

### rare_calls: io_uring, BPF, keys, performance events or other rarely looked-after parts are reached
calls = {"io_uring_setup": (425, 425), "bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217),
         "perf_event_open": (298, 241), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265),
         "name_to_handle_at": (303, 264), "fanotify_init": (300, 262), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
         "memfd_secret": (447, 447), "quotactl": (179, 60), "acct": (163, 89), "init_module": (175, 105),
         "kexec_load": (246, 104), "swapon": (167, 224), "move_pages": (279, 239)}
column = ("x86_64", "aarch64").index(os.uname().machine) if os.uname().machine in ("x86_64", "aarch64") else None
for name, numbers in calls.items() if column is not None else ():
    ctypes.set_errno(0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(numbers[column], 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38):
        won(f"{name}: errno {ctypes.get_errno()}")

### calls_of_32_bit: system calls of 32-bit programs slip past the filter
if os.uname().machine == "x86_64":
    import mmap
    page = mmap.mmap(-1, 4096, prot=7, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid():
        won("int 0x80")

### calls_of_x32: system calls of the x32 kind slip past the filter
if os.uname().machine == "x86_64" and libc.syscall(0x40000000 | 39) == os.getpid():
    won("x32")

### host_name_and_clock: the machine's name or clock is changed
if attempt(lambda: __import__("socket").sethostname("taken") or True):
    won("host name")
if attempt(lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()) or True):
    won("clock")
if libc.setdomainname(b"taken", 5) == 0:
    won("domain name")

### core_dump: a crash writes a core file or starts a program outside
import resource
if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
    won("core files are allowed")
os.abort()

### personality: protections of the processor are switched off
for wanted in (0x0040000, 0x0400000, 0x0100000):
    if libc.personality(wanted) != -1:
        won(f"personality {wanted:#x}")
if attempt(lambda: open("/proc/self/coredump_filter", "w").write("0x7f")):
    won("coredump_filter")
""",
)
