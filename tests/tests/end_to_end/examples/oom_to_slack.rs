//! `plugins/oom-to-slack`, with a local service in place of Slack.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::objects::{pod, pods};
use informant_tests::scripts;
use informant_tests::service::{Answer, Received, Service};
use serde_json::{Value, json};

use super::{SEEN_WITHIN, start_with, writes};

crate::on_both_clusters!(oom_to_slack_posts_once_and_waits_as_it_is_asked,);

const ACCEPTS: Answer = Answer {
    status: 200,
    retry_after: None,
    body: r#"{"ok":true}"#,
};

/// The pause, in seconds, that the service asks for when it is busy.
const PAUSE_SECONDS: u32 = 2;

const IS_BUSY: Answer = Answer {
    status: 429,
    retry_after: Some(PAUSE_SECONDS),
    body: r#"{"ok":false}"#,
};

/// The status of a pod whose container was killed at `time`.
fn killed_at(time: &Value, restarts: u32) -> Value {
    json!({ "status": { "phase": "Running", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "x", "ready": true, "restartCount": restarts,
        "state": { "running": { "startedAt": time } },
        "lastState": { "terminated": { "reason": "OOMKilled", "exitCode": 137, "finishedAt": time } },
    }] } })
}

/// Creates the pod `web`, whose container was killed right then. Returns the time of that.
async fn kill_web(client: &Client) -> Result<Value> {
    let created = client.post(&pods(""), &pod("web", "nginx:1.29")).await?;
    let time = created["metadata"]["creationTimestamp"].clone();
    client.merge(&pods("web/status"), &killed_at(&time, 1)).await?;
    Ok(time)
}

fn is_the_message(post: &Received) -> Result<()> {
    let body: Value = serde_json::from_str(&post.body)?;
    let text = "Container app of pod default/web was killed: out of memory (limit none, 1 restarts)";
    ensure!(body == json!({ "channel": "#alerts", "text": text }), "{body}");
    let head = &post.head;
    ensure!(head.starts_with("POST /api/chat.postMessage "), "{head}");
    let is_authorized = head.to_lowercase().contains("authorization: bearer xoxb-1");
    ensure!(is_authorized, "{head}");
    Ok(())
}

async fn oom_to_slack_posts_once_and_waits_as_it_is_asked(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let slack = Service::start(ACCEPTS, &[IS_BUSY]).await?;
    let secret = cluster.folder().join("authorization");
    std::fs::write(&secret, "Bearer xoxb-1")?;
    let adjust = |config: String| {
        let state = format!("[state]\npath = {:?}", cluster.folder().join("state.redb"));
        let local = config
            .replace("https://slack.com", &slack.origin())
            .replace("[state]", &state);
        local.replace("\"/etc/slack/authorization\"", &format!("{secret:?}"))
    };
    let client = cluster.client().await?;
    let time = kill_web(&client).await?;

    let mut daemon = start_with(&cluster, "oom-to-slack", adjust).await?;
    let posts = slack.wait_for(2, SEEN_WITHIN).await;
    let posts = posts.with_context(|| daemon.process().tail())?;
    let pause = posts[1].at - posts[0].at;
    let expected = Duration::from_secs(PAUSE_SECONDS.into());
    ensure!(pause >= expected, "the second attempt came after {pause:?}");
    is_the_message(&posts[1])?;

    // Neither another kill within the pause, nor a list after lost history, nor a restart is a reason to repeat it.
    cluster.compact().await?;
    cluster
        .fault(&json!({ "drop-watches": { "ending": "mid-line" } }))
        .await?;
    client.merge(&pods("web/status"), &killed_at(&time, 2)).await?;
    writes(&daemon, 2.0).await?;
    // A kill might come before the key is stored, and then the message is repeated.
    daemon.process().signal("TERM").await?;
    daemon.process_mut().wait_for_end(SEEN_WITHIN).await?;
    daemon = start_with(&cluster, "oom-to-slack", adjust).await?;
    writes(&daemon, 1.0).await?;
    ensure!(slack.received().len() == 2, "{:?}", slack.received());

    // Another pod of the same name is.
    client.delete(&pods("web")).await?;
    kill_web(&client).await?;
    let posts = slack.wait_for(3, SEEN_WITHIN).await;
    posts.with_context(|| daemon.process().tail())?;
    Ok(())
}
