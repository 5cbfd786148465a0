//! `/api/v1/replicas`: the replicas of this Informant, and which of them acts. Actions on plugins are for that one.

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::WARNING;
use http::{HeaderValue, Method};
use informant_cache::Moment;
use informant_lease::{Member, Standing};
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::{AdminError, Code};
use super::shards;
use crate::daemon::ReplicasStatus;
use crate::replicas::{GroupStatus, ShardStatus, pod_of};

/// The replicas, as the one that answers sees them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicasView {
    /// `NAMESPACE/NAME` of the Lease that says who acts; null without `[ha]`, and until this process has joined.
    pub lease: Option<String>,
    /// The replica that acts.
    pub holder: Option<String>,
    /// The process that the Lease names, if that is no replica that renews its own Lease.
    #[serde(default)]
    pub named: Option<String>,
    /// How often the Lease was acquired.
    pub transitions: u32,
    /// What this replica is: `alone` (without `[ha]`), `not-joined`, `standby`, `acquiring`, `acting`, `handing-over`,
    /// `releasing`.
    pub standing: String,
    /// For how long.
    pub since_ms: Option<u64>,
    /// Why it is a standby, and what keeps it from acting.
    pub reason: Option<String>,
    /// By name.
    pub items: Vec<ReplicaView>,
    /// Another process that calls itself by the name of this replica.
    #[serde(default)]
    pub other: Option<String>,
    /// Why the Lease of this replica cannot be written, or the Leases cannot be read.
    #[serde(default)]
    pub failure: Option<String>,
    /// Into how many shards the work is divided, as `GENERATION:SHARDS`, with `-raw` for that hash; null if it is not.
    #[serde(default)]
    pub layout: Option<String>,
    /// The layout that the replicas change to.
    #[serde(default)]
    pub next_layout: Option<String>,
    /// By number; empty if the work is not divided.
    #[serde(default)]
    pub shards: Vec<ShardView>,
}

/// A part of the work.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShardView {
    pub shard: u8,
    /// The replica that acts for its objects.
    pub holder: Option<String>,
    /// What the replica that answers is for it; as `standing` of the replica.
    pub standing: String,
    /// For how long.
    pub since_ms: Option<u64>,
    /// Why it is a standby.
    pub reason: Option<String>,
    /// How often its Lease was acquired.
    pub transitions: u32,
}

/// One replica.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicaView {
    /// Its pod.
    pub name: String,
    /// Whether it is the one that answers.
    pub is_this: bool,
    pub acts: bool,
    /// Whether its Lease is renewed.
    pub live: bool,
    /// Whether it could act.
    pub ready: bool,
    /// The version of Informant.
    pub version: String,
    /// The digest of its config.toml.
    pub configuration: String,
    /// Whether that is another one than that of the replica that answers.
    pub differs: bool,
    /// Where its admin API is; empty if only on its machine.
    pub address: String,
    /// How long ago it was seen last.
    pub seen_ms: u64,
}

/// A replica that can be asked for what it knows alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OtherReplica {
    /// Its pod.
    pub name: String,
    /// Where its admin API is; empty if only on its machine.
    pub address: String,
}

/// The name of this replica, and the others whose Leases are renewed. None without `[ha]`, and until it has joined.
pub(super) fn others(state: &AdminState) -> Option<(String, Vec<OtherReplica>)> {
    let ReplicasStatus::Joined(group) = state.registry.replicas() else {
        return None;
    };
    let now = state.environment.boot_now();
    let others = group
        .members
        .iter()
        .filter(|member| member.is_live(now) && member.identity != group.identity);
    let others = others.map(|member| OtherReplica {
        name: member.pod.to_string(),
        address: member.record.address.to_string(),
    });
    Some((pod_of(&group.identity).to_owned(), others.collect()))
}

/// The name of this replica; none without `[ha]`, and until it has joined.
pub(super) fn own_name(state: &AdminState) -> Option<String> {
    match state.registry.replicas() {
        ReplicasStatus::Joined(group) => Some(pod_of(&group.identity).to_owned()),
        ReplicasStatus::Alone | ReplicasStatus::NotJoined { .. } => None,
    }
}

pub(super) async fn list(State(state): State<AdminState>) -> Json<ReplicasView> {
    Json(view(&state))
}

pub(super) fn view(state: &AdminState) -> ReplicasView {
    let now = state.environment.boot_now();
    let own_digest = state.registry.configuration().digest.clone();
    match state.registry.replicas() {
        ReplicasStatus::Alone => ReplicasView {
            standing: "alone".to_owned(),
            ..ReplicasView::default()
        },
        ReplicasStatus::NotJoined { reason } => ReplicasView {
            standing: "not-joined".to_owned(),
            reason: Some(reason.to_string()),
            ..ReplicasView::default()
        },
        ReplicasStatus::Joined(group) => {
            let mut view = of_group(&group, &own_digest, now);
            let acts = state.registry.acts_elsewhere().is_none();
            if let (Standing::Acting { .. }, false) = (&group.standing, acts) {
                let why = state.metrics.shared_state.failure();
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                view.reason = Some(format!("shared state is not read yet{why}"));
            }
            view
        }
    }
}

impl ReplicaView {
    /// The same, as if it had been seen now.
    pub(super) fn without_age(&self) -> Self {
        Self {
            seen_ms: 0,
            ..self.clone()
        }
    }
}

fn of_group(group: &GroupStatus, own_digest: &str, now: Moment) -> ReplicasView {
    let (standing, since, reason) = standing(&group.standing);
    let holder = group.holder();
    let replica = |member: &Member| ReplicaView {
        name: member.pod.to_string(),
        is_this: member.identity == group.identity,
        acts: member.is_live(now) && (holder == Some(pod_of(&member.identity)) || holds_shard(group, member)),
        live: member.is_live(now),
        ready: member.record.is_ready,
        version: member.record.version.to_string(),
        configuration: member.record.digest.to_string(),
        differs: *member.record.digest != *own_digest,
        address: member.record.address.to_string(),
        seen_ms: millis(now, member.observed),
    };
    ReplicasView {
        lease: Some(group.lease.to_string()),
        holder: holder.map(str::to_owned),
        named: group.named().filter(|_| holder.is_none()).map(str::to_owned),
        transitions: group.content.as_ref().map_or(0, |content| content.transitions),
        standing: standing.to_owned(),
        since_ms: since.map(|since| millis(now, since)),
        reason,
        items: group.members.iter().map(replica).collect(),
        other: group.other.as_ref().map(ToString::to_string),
        failure: group.failure.as_ref().map(ToString::to_string),
        layout: is_divided(group).then(|| group.layout.to_string()),
        next_layout: group.next_layout.map(|layout| layout.to_string()),
        shards: shard_views(group, now),
    }
}

fn is_divided(group: &GroupStatus) -> bool {
    group.layout.division.shards > 1
}

fn holds_shard(group: &GroupStatus, member: &Member) -> bool {
    let mut shards = group.shards.iter().filter(|_| is_divided(group));
    shards.any(|shard| shard.holder.as_ref() == Some(&member.identity))
}

fn shard_views(group: &GroupStatus, now: Moment) -> Vec<ShardView> {
    let known = group.shards.iter().filter(|_| is_divided(group));
    let in_force = known.filter(|shard| shard.shard < group.layout.division.shards);
    let view = |shard: &ShardStatus| {
        let (standing, since, reason) = standing(&shard.standing);
        ShardView {
            shard: shard.shard,
            holder: shard.holder.as_deref().map(pod_of).map(str::to_owned),
            standing: standing.to_owned(),
            since_ms: since.map(|since| millis(now, since)),
            reason,
            transitions: shard.transitions,
        }
    };
    in_force.map(view).collect()
}

fn standing(standing: &Standing) -> (&'static str, Option<Moment>, Option<String>) {
    match standing {
        Standing::Standby {
            since, why, obstacle, ..
        } => {
            let obstacle = obstacle.as_ref().map(|obstacle| format!("; {obstacle}"));
            let reason = format!("{why}{}", obstacle.unwrap_or_default());
            ("standby", Some(*since), Some(reason))
        }
        Standing::Acquiring { since } => ("acquiring", Some(*since), None),
        Standing::Acting { since, .. } => ("acting", Some(*since), None),
        Standing::HandingOver { since, .. } => ("handing-over", Some(*since), None),
        Standing::Releasing { .. } => ("releasing", None, None),
    }
}

fn millis(now: Moment, then: Moment) -> u64 {
    u64::try_from((now - then).as_millis()).unwrap_or(u64::MAX)
}

/// Paths of what only the replica that acts knows of plugins.
const OF_PLUGINS: [&str; 3] = ["/api/v1/plugins", "/api/v1/dead-letters", "/api/v1/retries"];

/// Answers actions on plugins, while another replica acts, with its name. Answers to questions about plugins have it in
/// a `Warning`, as those of the API server of Kubernetes. While the work is divided, answers have their [part](shards).
pub(super) async fn refuse_in_standby(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    if let ReplicasStatus::Joined(group) = state.registry.replicas()
        && is_divided(&group)
    {
        return shards::answer(&state, &group, request, next).await;
    }
    let path = request.uri().path();
    let is_about_plugins = OF_PLUGINS.iter().any(|prefix| path.starts_with(prefix));
    let Some(holder) = state.registry.acts_elsewhere().filter(|_| is_about_plugins) else {
        return next.run(request).await;
    };
    let message = in_standby(holder.as_deref());
    if request.method() == Method::POST {
        return AdminError::new(Code::Standby, message).into_response();
    }
    let mut response = next.run(request).await;
    if let Ok(warning) = HeaderValue::try_from(format!("299 informant \"{message}\"")) {
        response.headers_mut().insert(WARNING, warning);
    }
    response
}

fn in_standby(holder: Option<&str>) -> String {
    match holder {
        Some(holder) => {
            format!("this replica is a standby: {holder} acts; ask that one (kubectl informant --pod {holder})")
        }
        None => "this replica is a standby, and no replica acts now; `informant replicas` shows why".to_owned(),
    }
}
