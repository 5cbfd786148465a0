//! What processes received from the API server, counted by the kernel and shown by `ss` (iproute2).

use std::process::Output;

use anyhow::Result;
use tokio::process::Command;

/// Bytes that these processes received over the connections to `port` that are open now. None without `ss`.
pub(super) async fn received(port: u16, processes: &[u32]) -> Result<Option<u64>> {
    let to = format!("dport = :{port}");
    let output = Command::new("ss")
        .args(["-H", "-t", "-n", "-p", "-i", &to])
        .output()
        .await;
    let Ok(Output { status, stdout, .. }) = output else {
        return Ok(None);
    };
    Ok(status
        .success()
        .then(|| received_in(&String::from_utf8_lossy(&stdout), processes)))
}

/// Each connection has a line with its process, and an indented one with its figures.
fn received_in(text: &str, processes: &[u32]) -> u64 {
    let (mut is_own, mut sum) = (false, 0);
    for line in text.lines() {
        if !line.starts_with(char::is_whitespace) {
            is_own = processes.iter().any(|id| line.contains(&format!("pid={id},")));
            continue;
        }
        let figures = line.split_whitespace();
        let received = figures.filter_map(|figure| figure.strip_prefix("bytes_received:"));
        sum += received
            .filter(|_| is_own)
            .filter_map(|value| value.parse::<u64>().ok())
            .sum::<u64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_connections_of_the_processes_count() {
        let text = "\
ESTAB 0 0 127.0.0.1:4001 127.0.0.1:8088 users:((\"peer\",pid=12,fd=7))
\t cubic wscale:7,7 bytes_sent:100 bytes_received:7000 segs_out:4
ESTAB 0 0 127.0.0.1:4002 127.0.0.1:8088 users:((\"peer\",pid=12,fd=9))
\t cubic bytes_sent:50 segs_out:4
ESTAB 0 0 127.0.0.1:4003 127.0.0.1:8088 users:((\"bench\",pid=123,fd=7))
\t cubic bytes_received:5 segs_out:4
";
        assert_eq!(super::received_in(text, &[12, 13]), 7_000);
        assert_eq!(super::received_in(text, &[12, 123]), 7_005);
        assert_eq!(super::received_in(text, &[]), 0);
    }
}
