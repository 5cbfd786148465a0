use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;

use super::*;

/// A kernel without these calls answers them so.
fn without(calls: &[i64]) {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    seccompiler::apply_filter(&program(rules, libc::ENOSYS).unwrap()).unwrap();
}

/// What this thread may do, of what a compiler need not.
fn permitted(folder: &Path, server: SocketAddr) -> Vec<&'static str> {
    let path = |name: &str| folder.join(name);
    let attempts: [(&str, io::Result<()>); 11] = [
        ("read a file", File::open(path("file")).map(drop)),
        (
            "write a file",
            OpenOptions::new().append(true).open(path("file")).map(drop),
        ),
        ("create a file", File::create(path("new")).map(drop)),
        ("list a folder", fs::read_dir(folder).map(drop)),
        ("rename a file", fs::rename(path("other"), path("another"))),
        ("remove a file", fs::remove_file(path("old"))),
        ("connect", TcpStream::connect(server).map(drop)),
        ("listen", TcpListener::bind("127.0.0.1:0").map(drop)),
        ("have a socket", UnixStream::pair().map(drop)),
        ("start a program", Command::new("/bin/true").status().map(drop)),
        ("reach another process", reach_parent()),
    ];
    attempts
        .into_iter()
        .filter_map(|(name, result)| result.is_ok().then_some(name))
        .collect()
}

fn reach_parent() -> io::Result<()> {
    let parent = rustix::process::getppid().expect("tests are started by a program");
    Ok(rustix::process::test_kill_process(parent)?)
}

/// Runs `restrict` in a thread, and returns its result and what the thread may do then.
fn after<T: Send>(restrict: impl FnOnce() -> T + Send) -> (T, Vec<&'static str>) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["file", "other", "old"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    thread::scope(|scope| {
        let restricted = scope.spawn(|| {
            let result = restrict();
            let permitted = permitted(folder.path(), address);
            // What compiling needs.
            let worker = thread::Builder::new().spawn(|| vec![0_u8; 1 << 20].len()).unwrap();
            assert_eq!(worker.join().unwrap(), 1 << 20);
            (result, permitted)
        });
        restricted.join().unwrap()
    })
}

#[test]
fn an_unconfined_thread_may_do_everything() {
    let ((), permitted) = after(|| ());
    assert_eq!(permitted.len(), 11, "{permitted:?}");
}

#[test]
fn a_confined_thread_has_no_files_sockets_programs_or_processes() {
    let (confinement, permitted) = after(confine);
    assert!(confinement.seccomp && confinement.no_new_privs, "{confinement:?}");
    assert_eq!(permitted, Vec::<&str>::new());
}

#[test]
fn without_landlock_the_filter_confines_alone() {
    let (confinement, permitted) = after(|| {
        without(&[libc::SYS_landlock_create_ruleset]);
        confine()
    });
    assert_eq!((confinement.landlock, confinement.seccomp), (Landlock::Absent, true));
    assert_eq!(confinement.missing(), "landlock");
    assert_eq!(permitted, Vec::<&str>::new());
}

#[test]
fn without_the_filter_landlock_confines_alone() {
    let (confinement, permitted) = after(|| {
        without(&[libc::SYS_seccomp]);
        confine()
    });
    assert!(!confinement.seccomp && !confinement.is_complete());
    let expected: &[&str] = match confinement.landlock {
        Landlock::Full => &["have a socket"],
        // This kernel has less.
        _ => return,
    };
    assert_eq!(permitted, expected);
}

#[test]
fn on_a_system_without_both_nothing_fails() {
    let (confinement, permitted) = after(|| {
        without(&[libc::SYS_landlock_create_ruleset, libc::SYS_seccomp]);
        confine()
    });
    assert_eq!(confinement.missing(), "landlock, seccomp");
    assert_eq!(permitted.len(), 11, "{permitted:?}");
}
