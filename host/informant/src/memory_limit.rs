//! How much memory the process may use: the limit of its container, or what the machine has.

use std::path::Path;

/// The smallest limit of the process's control groups and of the machine, in bytes. `root` is the root of the file
/// system. None if the system does not tell (not Linux).
///
/// In a container the group's folder is often mounted where the root of all groups is elsewhere, so that only folders
/// above the group's own path exist: each that exists counts.
pub(crate) fn memory_limit_bytes(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| limit_of_group(root, line));
    of_groups.chain(machine_bytes(root)).min()
}

/// The limit of a group and those above it. `line` is `0::/path` for version 2, `5:memory:/path` for version 1.
fn limit_of_group(root: &Path, line: &str) -> Option<u64> {
    let (_, group) = line.split_once(':')?;
    let (controllers, path) = group.split_once(':')?;
    let (mount, file) = match controllers {
        "" => (root.join("sys/fs/cgroup"), "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            (root.join("sys/fs/cgroup/memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let path = Path::new(path.trim_start_matches('/'));
    // `max`, and the huge number of version 1, are no limit.
    let limit = |folder: &Path| {
        let text = std::fs::read_to_string(mount.join(folder).join(file)).ok()?;
        text.trim().parse().ok()
    };
    path.ancestors().filter_map(limit).min()
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemFree: 1 kB\nMemTotal:       8388608 kB\n");

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        memory_limit_bytes(root.path())
    }

    #[test]
    fn smallest_limit_of_nested_groups_counts() {
        let groups = ("proc/self/cgroup", "0::/kubepods/pod7/app\n");
        let pod = ("sys/fs/cgroup/kubepods/pod7/memory.max", "268435456\n");
        let app = |text| ("sys/fs/cgroup/kubepods/pod7/app/memory.max", text);
        assert_eq!(limit(&[MACHINE, groups, pod, app("max\n")]), Some(256 << 20));
        assert_eq!(limit(&[MACHINE, groups, pod, app("1048576\n")]), Some(1 << 20));
        let no_limits = [MACHINE, groups, app("max\n")];
        assert_eq!(limit(&no_limits), Some(8 << 30));
    }

    #[test]
    fn a_group_that_is_mounted_as_root_is_found() {
        let groups = ("proc/self/cgroup", "0::/elsewhere/app\n");
        let root = ("sys/fs/cgroup/memory.max", "536870912\n");
        assert_eq!(limit(&[MACHINE, groups, root]), Some(512 << 20));
    }

    #[test]
    fn version_1_has_a_group_for_memory() {
        let groups = (
            "proc/self/cgroup",
            "3:cpu,cpuacct:/b\n2:hugetlb,memory:/docker/a\n0::/\n",
        );
        let of = |text| ("sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", text);
        assert_eq!(limit(&[MACHINE, groups, of("134217728\n")]), Some(128 << 20));
        assert_eq!(limit(&[MACHINE, groups, of("9223372036854771712\n")]), Some(8 << 30));
    }

    #[test]
    fn a_system_that_does_not_tell_has_no_limit() {
        assert_eq!(limit(&[]), None);
        assert_eq!(
            limit(&[("proc/self/cgroup", "broken\n0::\n"), ("proc/meminfo", "")]),
            None
        );
    }
}
