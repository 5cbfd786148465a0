//! Landlock and seccomp.

mod calls;

use std::collections::BTreeMap;

use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetStatus, Scope};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::{Confinement, Landlock};

/// The rights to give up: those of Linux 6.12. A kernel that knows fewer of them takes these.
const LANDLOCK_RIGHTS: ABI = ABI::V6;

pub(super) fn confine() -> Confinement {
    let (landlock, without_privs) = restrict_by_landlock();
    match filter_calls() {
        Ok(()) => Confinement {
            no_new_privs: true,
            landlock,
            seccomp: true,
        },
        Err(_) => Confinement {
            no_new_privs: without_privs,
            landlock,
            seccomp: false,
        },
    }
}

/// Gives up all files, TCP ports, and signals and abstract sockets of other processes, with no exception. Returns
/// whether new privileges are given up, too.
fn restrict_by_landlock() -> (Landlock, bool) {
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK_RIGHTS))?
            .handle_access(AccessNet::from_all(LANDLOCK_RIGHTS))?
            .scope(Scope::from_all(LANDLOCK_RIGHTS))?
            .create()?
            .restrict_self()
    };
    match restrict() {
        Ok(status) => {
            let landlock = match status.ruleset {
                RulesetStatus::FullyEnforced => Landlock::Full,
                RulesetStatus::PartiallyEnforced => Landlock::Partial,
                RulesetStatus::NotEnforced => Landlock::Absent,
            };
            (landlock, status.no_new_privs)
        }
        Err(_) => (Landlock::Absent, false),
    }
}

/// Denies the system calls that a compiler does not make. Gives up new privileges, too, which the kernel asks for.
/// Errors: the kernel has no seccomp, or a container does not permit it.
fn filter_calls() -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(&program(denied()?, libc::EPERM)?)?;
    // Its flags are in memory, which no filter can read. As in Docker: the C library then takes `clone`.
    let unreadable = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    seccompiler::apply_filter(&program(unreadable, libc::ENOSYS)?)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A filter that answers calls which match with an error, and lets all others through.
fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()?)
}

fn denied() -> Result<Rules, seccompiler::Error> {
    let own_process = u64::from(std::process::id());
    let mut rules: Rules = calls::denied().map(|call| (call, Vec::new())).collect();
    for (call, operator, value) in [
        // Threads only.
        (libc::SYS_clone, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0),
        // How a process aborts.
        (libc::SYS_tgkill, SeccompCmpOp::Ne, own_process),
        // 0 is the process itself.
        (libc::SYS_prlimit64, SeccompCmpOp::Ne, 0),
    ] {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value)?;
        rules.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests;
