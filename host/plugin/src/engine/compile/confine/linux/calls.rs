//! The system calls that a compiler does not make.

use libc::c_long;

/// Opens no file, not even for reading, and changes none by its path.
const FILES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_truncate,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_chroot,
    libc::SYS_fanotify_init,
    libc::SYS_inotify_init1,
];

/// Newer ones, which have one number on all machines: `fchmodat2`, `setxattrat`, `removexattrat`, `open_tree_attr`,
/// `file_setattr`.
const NEWER_FILES: &[c_long] = &[452, 463, 466, 467, 469];

/// Starts no program and no process, and reaches no other one.
const PROCESSES: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

/// Has no socket, and shares no memory or queue with another process.
const COMMUNICATION: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Has nothing to do with the rest of the kernel: the parts that attacks on it have gone through, and those that only
/// an administrator needs.
const KERNEL: &[c_long] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_personality,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

/// What only this machine has: mostly older forms of the above.
#[cfg(target_arch = "x86_64")]
const OF_MACHINE: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_uselib,
    libc::SYS_modify_ldt,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];

/// `renameat`.
#[cfg(target_arch = "aarch64")]
const OF_MACHINE: &[c_long] = &[38];

/// Added to the number of a call in the x32 ABI, which a filter takes for the same machine.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;

/// Calls that have a number of their own in the x32 ABI, among them `execve` and `ptrace`.
#[cfg(target_arch = "x86_64")]
const X32_OWN: std::ops::RangeInclusive<c_long> = 512..=547;

/// Calls that are permitted with some arguments, but not in the x32 ABI, which this process does not use.
#[cfg(target_arch = "x86_64")]
const X32_DENIED: &[c_long] = &[
    libc::SYS_clone | X32,
    libc::SYS_clone3 | X32,
    libc::SYS_tgkill | X32,
    libc::SYS_prlimit64 | X32,
];

/// The numbers of all of them.
pub(super) fn denied() -> impl Iterator<Item = c_long> {
    let calls = [FILES, NEWER_FILES, PROCESSES, COMMUNICATION, KERNEL, OF_MACHINE];
    let calls = calls.into_iter().flatten().copied();
    #[cfg(target_arch = "x86_64")]
    let calls = calls
        .chain(X32_OWN)
        .flat_map(|call| [call, call | X32])
        .chain(X32_DENIED.iter().copied());
    calls
}
