//! Commands ask all replicas that hold shards, and name the shards of those that do not answer.

use std::collections::BTreeSet;

use informant_apiserver::TokenOwner;
use serde_json::Value;

use super::{CONFIG, TEAMS, create_all, world};
use crate::program::{Program, informant};
use crate::world::{World, until};

const TOKEN: &str = "alice-token";

/// Two replicas that others reach at the addresses in their Leases: with TLS, which tokens need.
async fn replicas(world: &World) -> [Program; 2] {
    let owner = TokenOwner {
        user: "alice".to_owned(),
        audiences: vec!["informant".to_owned()],
        ..TokenOwner::default()
    };
    world.server.add_token(TOKEN, owner);
    world.write("token", TOKEN.as_bytes());
    // With this speed, a replica that is killed counts as the holder of its shards for 15 s.
    let config = CONFIG.replace("speed = \"fast\"", "speed = \"normal\"");
    world.configure(&format!("tls = \"self-signed\"\n{config}"));
    [replica(world, 0).await, replica(world, 1).await]
}

async fn replica(world: &World, number: usize) -> Program {
    let args = [
        "run",
        "--health-listen=127.0.0.1:0",
        "--admin-listen=0.0.0.0:0",
        "--log-format=json",
    ];
    let mut command = informant(world, &args);
    command
        .env("HOSTNAME", format!("informant-{number}"))
        .env("POD_IP", "127.0.0.1");
    Program::start(command).await
}

/// Exit code, stdout and stderr of a command that asks a replica first.
async fn run(world: &World, replica: &Program, args: &[&str]) -> (i32, String, String) {
    let admin = format!("https://127.0.0.1:{}", replica.address().port());
    let connection = [
        "--admin",
        admin.as_str(),
        "--insecure-skip-tls-verify",
        "--token-file",
        "token",
    ];
    let all = [args, &connection[..]].concat();
    let output = informant(world, &all).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn json(world: &World, replica: &Program, args: &[&str]) -> Result<Value, String> {
    let (code, out, err) = run(world, replica, &[args, &["-o", "json"]].concat()).await;
    match code {
        0 => serde_json::from_str(&out).map_err(|error| format!("{error}: {out}")),
        code => Err(format!("exit {code}: {err}")),
    }
}

/// The shards that `informant-1` holds, once each replica holds two.
async fn shards_of_the_second(world: &World, first: &Program) -> BTreeSet<u64> {
    until("two shards in each replica", async || {
        let group = json(world, first, &["replicas"]).await?;
        let shards = group["shards"].as_array().into_iter().flatten();
        let of = |name: &str| {
            let held = shards.clone().filter(|shard| shard["holder"] == name);
            held.filter_map(|shard| shard["shard"].as_u64())
                .collect::<BTreeSet<u64>>()
        };
        let (one, other) = (of("informant-0"), of("informant-1"));
        match (one.len(), other.len()) {
            (2, 2) => Ok(other),
            _ => Err(format!("{one:?} {other:?}")),
        }
    })
    .await
}

const GET: [&str; 4] = ["get", "pods", "-o", "name"];

fn names(out: &str) -> Vec<String> {
    out.lines()
        .map(|line| line.trim_start_matches("pod/").to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_ask_all_replicas_and_name_missing_shards() {
    let world = world().await;
    let [first, mut second] = replicas(&world).await;
    let of_second = shards_of_the_second(&world, &first).await;
    create_all(&world, "web");
    let mut teams: Vec<usize> = (0..TEAMS).collect();
    teams.sort_by_key(|team| format!("team-{team}"));
    let all: Vec<String> = teams.iter().map(|team| format!("web-{team}")).collect();
    for asked in [&first, &second] {
        until("the pods of both replicas, in order", async || {
            let (code, out, err) = run(&world, asked, &GET).await;
            let is_all = code == 0 && names(&out) == all;
            is_all.then_some(()).ok_or_else(|| format!("exit {code}: {out}{err}"))
        })
        .await;
    }
    for team in 0..4 {
        let (name, namespace) = (format!("web-{team}"), format!("team-{team}"));
        let (code, out, err) = run(&world, &first, &["get", "pods", &name, "-n", &namespace, "-o", "name"]).await;
        assert_eq!((code, names(&out)), (0, vec![name]), "{err}");
    }
    let shard = of_second.first().unwrap().to_string();
    let (code, out, err) = run(&world, &first, &[&GET[..], &["--shard", &shard]].concat()).await;
    let of_shard = names(&out).len();
    assert!(code == 0 && of_shard > 0 && of_shard < TEAMS, "exit {code}: {out}{err}");

    until("an instance of the plugin in each replica", async || {
        let plugins = json(&world, &first, &["plugin", "list"]).await?;
        let is_sum =
            plugins["items"].as_array().is_some_and(|items| items.len() == 1) && plugins["items"][0]["instances"] == 2;
        is_sum.then_some(()).ok_or_else(|| plugins.to_string())
    })
    .await;
    let (code, out, err) = run(&world, &first, &["plugin", "pause", "recorder"]).await;
    let paused = "plugin/recorder paused in informant-0, informant-1\n";
    assert_eq!((code, out.as_str()), (0, paused), "{err}");

    second.signal("-KILL").await;
    second.exit_code().await;
    let (code, out, err) = run(&world, &first, &GET).await;
    assert_eq!(code, 7, "{err}");
    let shown = names(&out).len();
    assert!(shown > 0 && shown < TEAMS, "{out}");
    for part in [
        "warning: shards ",
        " (informant-1) did not answer: ",
        "; what they have is missing",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let (code, out, err) = run(&world, &first, &["get", "pods", "--require-all"]).await;
    assert_eq!((code, out.as_str()), (5, ""), "{err}");
}
