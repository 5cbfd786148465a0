//! The README's quick start, command by command, as a reader pastes it.
//!
//! Left out are the clone and the build: the program under test is already built.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::tools_folder;
use informant_tests::{guests, readme, scripts};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

/// How long the log may take to show a line, compiling the script runner included.
const SEEN_WITHIN: Duration = Duration::from_secs(120);

/// How long the programs may take to stop.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// Makes the commands a script: both programs end with the shell, and a command is made only when the one before it
/// has had its effect, which a reader sees.
const BEFORE: &str = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n";

const IS_RUNNING: &str = "until informant plugin list | grep -q running; do sleep 0.2; done";

/// A command, and what shows its effect.
const EFFECTS: [(&str, &str); 5] = [
    ("informant apiserver", "[ -s kubeconfig ]"),
    ("informant run", "informant status >/dev/null 2>&1"),
    ("sed", "! informant status | grep -q 'dry run'"),
    (
        "informant plugin trigger",
        "kubectl get deployment web -o yaml | grep -q reload-seen",
    ),
    (
        "kubectl run",
        "kubectl get pods --label-columns=team | grep -q unassigned",
    ),
];

/// The reader's second save. Informant applies it.
const SECOND_SAVE: &str = "cat more.toml >>config.toml\n\
                           until informant plugin list | grep -q 'hello *running'; do sleep 0.2; done\n";

/// The commands of a `console` block as shell commands.
fn shell_commands(console: &str) -> String {
    let mut script = String::new();
    for line in console.lines().filter_map(|line| line.strip_prefix("$ ")) {
        script += match line {
            list if list.starts_with("informant plugin list") => IS_RUNNING,
            other => other,
        };
        script.push('\n');
        let seen = EFFECTS.iter().filter(|(command, _)| line.starts_with(command));
        for (_, has_effect) in seen {
            script.extend(["until ", has_effect, "; do sleep 0.2; done\n"]);
        }
    }
    script
}

/// `$PATH` of a reader who has installed Informant and kubectl.
pub(crate) fn reader_path() -> Result<std::ffi::OsString> {
    let informant = guests::informant()?;
    let mut folders = vec![
        informant.parent().map(Path::to_path_buf).unwrap_or_default(),
        tools_folder(),
    ];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    Ok(std::env::join_paths(folders)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readme_quick_start_prints_what_it_shows() {
    if can_run_commands().await.unwrap() {
        quick_start().await.unwrap();
    }
}

/// Whether kubectl and scripts are there; without one, the test run has to say so.
pub(crate) async fn can_run_commands() -> Result<bool> {
    let has_kubectl = tools_folder().join("kubectl").is_file();
    if !has_kubectl && std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_some() {
        return Ok(false);
    }
    scripts::can_run().await
}

async fn quick_start() -> Result<()> {
    let text = readme::of("")?;
    let section = readme::section(&text, "## Quick start")?;
    let folder = tempfile::tempdir()?;
    let block = |language: &str, at: usize| {
        let found = readme::blocks(section, language).into_iter().nth(at);
        found.with_context(|| format!("block {at} of {language} in the quick start"))
    };
    readme::install_example("reloader", folder.path())?;
    std::fs::write(folder.path().join("config.toml"), block("toml", 0)?)?;
    std::fs::write(folder.path().join("hello.js"), block("js", 0)?)?;
    std::fs::write(folder.path().join("more.toml"), block("toml", 1)?)?;
    let (first, second) = (
        shell_commands(&block("console", 1)?),
        shell_commands(&block("console", 2)?),
    );
    let log: PathBuf = folder.path().join("log");
    let output = std::fs::File::create(&log)?;
    let mut shell = Command::new("bash")
        .arg("-c")
        .arg(format!("{BEFORE}{first}{SECOND_SAVE}{second}wait\n"))
        .current_dir(folder.path())
        .env("PATH", reader_path()?)
        .env("HOME", folder.path())
        .env("NO_COLOR", "1")
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let shown = block("text", 0)? + &block("text", 1)?;
    let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
    ensure!(!shown.is_empty(), "the quick start shows what it prints");
    let began = Instant::now();
    let missing = loop {
        let text = std::fs::read_to_string(&log)?;
        // A line that is shown twice has to be printed twice.
        let times = |line: &String| shown.iter().filter(|other| *other == line).count();
        let is_missing = |line: &&String| text.matches(line.as_str()).count() < times(line);
        let missing: Vec<&String> = shown.iter().filter(is_missing).collect();
        if missing.is_empty() || began.elapsed() > SEEN_WITHIN || shell.try_wait()?.is_some() {
            break missing.into_iter().cloned().collect::<Vec<_>>();
        }
        sleep(Duration::from_millis(50)).await;
    };
    // The shell leads a group of its own, with both programs in it.
    let group = shell.id().map(|pid| format!("-{pid}")).unwrap_or_default();
    Command::new("kill").args(["-TERM", "--", &group]).status().await?;
    timeout(ENDED_WITHIN, shell.wait())
        .await
        .context("the shell did not end")??;
    ensure!(
        missing.is_empty(),
        "not printed: {missing:#?}\n{}",
        std::fs::read_to_string(&log)?
    );
    Ok(())
}
