//! What others than this machine reach of an installation with default ports.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::world;
use crate::program::{Program, informant};
use crate::world::http_get;

/// An address of this machine that is not loopback, if it has one.
fn outside() -> Option<IpAddr> {
    // Nothing is sent: connecting only selects a route, and with it an address.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// The sockets of a process, as in the names of its descriptors.
fn sockets(process: u32) -> BTreeSet<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let target = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    let names = descriptors.filter_map(target).map(|path| path.display().to_string());
    let number = |name: String| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    names.filter_map(number).collect()
}

/// The TCP ports on which a process listens.
fn listening_ports(process: u32) -> BTreeSet<u16> {
    const LISTEN: &str = "0A";
    let own = sockets(process);
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(Path::new(table)));
    let mut ports = BTreeSet::new();
    for line in tables.iter().flatten().flat_map(|table| table.lines().skip(1)) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        if columns[3] == LISTEN && own.contains(columns[9]) {
            let port = columns[1].rsplit_once(':').unwrap().1;
            ports.insert(u16::from_str_radix(port, 16).unwrap());
        }
    }
    ports
}

#[tokio::test(flavor = "multi_thread")]
async fn only_probes_and_metrics_are_reachable_from_outside() {
    let world = world().await;
    // As in the default installation, on free ports.
    world.write(
        "config.toml",
        format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\ntls = \"self-signed\"\n[health]\nlisten = \"[::]:0\"\n{}",
            super::INFORMERS
        )
        .as_bytes(),
    );
    let program = Program::start(informant(&world, &["run", "--log-format=json"])).await;
    let health = program.logged("health server listening").await;
    let health: SocketAddr = health["fields"]["address"].as_str().unwrap().parse().unwrap();
    let ports = listening_ports(program.id());
    assert_eq!(ports, BTreeSet::from([health.port(), program.address().port()]));
    // A machine with only loopback addresses has no outside.
    let Some(outside) = outside() else { return };
    let reachable = ports
        .into_iter()
        .filter(|port| TcpStream::connect_timeout(&SocketAddr::new(outside, *port), Duration::from_secs(5)).is_ok());
    assert_eq!(reachable.collect::<Vec<_>>(), [health.port()]);
    let health = SocketAddr::new(outside, health.port());
    for path in ["/livez", "/healthz", "/metrics"] {
        assert_eq!(http_get(health, path).await.0, 200, "{path}");
    }
    for path in [
        "/",
        "/api/v1/get/pods",
        "/api/v1/get/secrets?show-secrets=true",
        "/api/v1/sources",
        "/api/v1/plugins",
        "/api/v1/configuration",
        "/api/v1/loglevel",
        "//api/v1/get/pods",
        "/%61pi/v1/get/pods",
        "/livez/../api/v1/get/pods",
    ] {
        let (status, text) = http_get(health, path).await;
        assert_eq!(status, 404, "{path}: {text}");
    }
}
