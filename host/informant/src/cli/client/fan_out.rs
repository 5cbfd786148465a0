//! Requests to several replicas of the daemon's group: each answers for its shards only.
//!
//! ```text
//! first replica ──its part of the shards──▶ its /api/v1/replicas ──▶ the holders of the other shards
//!       └───────────────────────── answers, and shards without one ◀───────────────┘
//! ```
//! Other replicas are reached in the way in which the first was. A replica without shards sends no part: its answer is
//! all there is.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::future::join_all;
use informant_cache::ShardSet;

use super::AdminArgs;
use super::connection::AdminClient;
use super::target::{AdminServer, Origin, Target};
use crate::admin::{AdminError, AnswerPart, Code, OtherReplica, ReplicasView};
use crate::cli::{Exit, output};

/// Where replicas and the holders of shards are listed.
const REPLICAS: &str = "/api/v1/replicas";

/// Selects a replica by a shard.
#[derive(Debug, Args)]
pub(in crate::cli) struct ShardArgs {
    /// Ask only the replica that holds this shard, with [ha] shards [default: ask all that hold one]
    #[arg(long, value_name = "NUMBER")]
    shard: Option<u8>,
}

/// Connections to the daemon and to other replicas.
pub(in crate::cli) struct Clients<'a> {
    args: &'a AdminArgs,
    target: Target,
    /// The daemon that the command is for.
    pub(in crate::cli) first: AdminClient,
    /// Whether no other one is asked.
    asks_one: bool,
    /// Asks for the holders of shards, while an answer of the first one is read.
    lookup: Option<AdminClient>,
    /// Connections to other replicas, by name.
    others: BTreeMap<String, AdminClient>,
}

/// What replicas have answered.
pub(in crate::cli) struct Answers<T> {
    /// At least one: that of the first replica is the first.
    pub(in crate::cli) items: Vec<Answer<T>>,
    missing: Vec<MissingShards>,
}

pub(in crate::cli) struct Answer<T> {
    /// The replica; none if its answer is all there is.
    pub(in crate::cli) replica: Option<String>,
    pub(in crate::cli) answer: T,
}

/// Shards for which no replica has answered.
#[derive(Debug, PartialEq, Eq)]
struct MissingShards {
    shards: Vec<u8>,
    /// The replica that holds them, if one does and it is known.
    holder: Option<String>,
    reason: String,
}

impl<'a> Clients<'a> {
    pub(super) async fn connect(args: &'a AdminArgs, target: Target) -> Result<Self> {
        let first = AdminClient::connect(args, &target).await?;
        Ok(Self {
            args,
            target,
            first,
            asks_one: false,
            lookup: None,
            others: BTreeMap::new(),
        })
    }

    /// Lets the command ask only the replica that holds a shard, if `args` has one.
    ///
    /// # Errors
    /// If no replica holds the shard, or it cannot be reached.
    pub(in crate::cli) async fn select(&mut self, args: &ShardArgs) -> Result<()> {
        let Some(shard) = args.shard else { return Ok(()) };
        let group: ReplicasView = self.first.read(REPLICAS).await?;
        let holder = holder_for(&group, shard)?;
        self.asks_one = true;
        if !is_this(&group, &holder.name) {
            let client = self.connect_to(&holder).await;
            let failed = || format!("cannot ask {}, which holds shard {shard}", holder.name);
            self.first = client.with_context(failed)?;
        }
        Ok(())
    }

    /// Asks the daemon, and, if it answers for a part of the shards, the replicas that hold the others.
    ///
    /// # Errors
    /// If the daemon does not answer. [`Answers::warn`] names the shards of others that do not.
    pub(in crate::cli) async fn ask<T>(
        &mut self,
        request: impl AsyncFn(&mut AdminClient) -> Result<T>,
    ) -> Result<Answers<T>> {
        let first = request(&mut self.first).await;
        let part = self.first.part().filter(|_| !self.asks_one).cloned();
        let Some(part) = part else {
            return first.map(Answers::of_one);
        };
        // A replica without a shard takes no action on a plugin; those that have one do.
        let (first, refusal) = match first {
            Ok(answer) => (Some(answer), None),
            Err(error) if is(&error, Code::Standby) => (None, Some(error)),
            Err(error) => return Err(error),
        };
        let mut items = Vec::new();
        items.extend(first.map(|answer| Answer {
            replica: Some(part.replica.clone()),
            answer,
        }));
        let mut seen = SeenShards::new(&part);
        let missing = match self.holders().await {
            Ok(group) => {
                let others = seen.holders_of_lacking(&group);
                for (name, asked) in self.ask_each(others, &request).await {
                    match asked {
                        Ok((client, answer)) => {
                            seen.add(client.part());
                            self.others.insert(name.clone(), client);
                            items.push(Answer {
                                replica: Some(name),
                                answer,
                            });
                        }
                        Err(error) => seen.failed(name, output::chain(&error)),
                    }
                }
                seen.missing(&group)
            }
            Err(error) => seen.missing_without_holders(&output::chain(&error)),
        };
        match (items.is_empty(), refusal) {
            (true, Some(refusal)) => Err(refusal),
            _ => Ok(Answers { items, missing }),
        }
    }

    /// The replicas, and which shards they hold.
    async fn holders(&mut self) -> Result<ReplicasView> {
        let mut client = match self.lookup.take().filter(AdminClient::is_open) {
            Some(client) => client,
            None => AdminClient::connect(self.args, &self.target).await?,
        };
        let group = client.read(REPLICAS).await?;
        self.lookup = Some(client);
        Ok(group)
    }

    /// Asks other replicas at the same time, each on a connection of its own, which is part of the result.
    pub(in crate::cli) async fn ask_each<T>(
        &mut self,
        replicas: Vec<OtherReplica>,
        request: impl AsyncFn(&mut AdminClient) -> Result<T>,
    ) -> Vec<(String, Result<(AdminClient, T)>)> {
        let with_clients = replicas.into_iter().map(|replica| {
            let open = self.others.remove(&replica.name).filter(AdminClient::is_open);
            (replica, open)
        });
        let with_clients: Vec<_> = with_clients.collect();
        let (this, request) = (&*self, &request);
        let asked = with_clients.into_iter().map(|(replica, open)| async move {
            let asked = this.ask_other(&replica, open, request).await;
            (replica.name, asked)
        });
        join_all(asked).await
    }

    async fn ask_other<T>(
        &self,
        replica: &OtherReplica,
        open: Option<AdminClient>,
        request: &impl AsyncFn(&mut AdminClient) -> Result<T>,
    ) -> Result<(AdminClient, T)> {
        let mut client = match open {
            Some(client) => client,
            None => self.connect_to(replica).await?,
        };
        let answer = request(&mut client).await?;
        Ok((client, answer))
    }

    /// Connects to another replica in the way in which the daemon was reached.
    async fn connect_to(&self, replica: &OtherReplica) -> Result<AdminClient> {
        AdminClient::connect(self.args, &self.target_of(replica)?).await
    }

    fn target_of(&self, replica: &OtherReplica) -> Result<Target> {
        let is_secure = matches!(self.target, Target::Server(AdminServer::Secure { .. }, _));
        match &self.target {
            Target::Pod { namespace, .. } => Ok(Target::Pod {
                namespace: namespace.clone(),
                name: Some(replica.name.clone()),
            }),
            _ if replica.address.is_empty() => bail!("its admin server listens on its own machine only"),
            // A token goes where a certificate proves who that is.
            _ if !is_secure => bail!(
                "its admin server is at https://{}: pass that with --admin, or use --pod",
                replica.address
            ),
            _ => match AdminServer::parse(&format!("https://{}", replica.address)) {
                Ok(server) => Ok(Target::Server(server, Origin::Lease)),
                Err(problem) => bail!("its address {} cannot be used: {problem}", replica.address),
            },
        }
    }
}

impl<T> Answers<T> {
    fn of_one(answer: T) -> Self {
        Self {
            items: vec![Answer { replica: None, answer }],
            missing: Vec::new(),
        }
    }

    /// Whether shards are missing.
    pub(in crate::cli) fn is_partial(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Warns of shards that are missing in what is shown. Returns the exit code.
    pub(in crate::cli) fn warn(&self) -> Exit {
        self.warn_that(|are_several| match are_several {
            true => "what they have is missing",
            false => "what it has is missing",
        })
    }

    /// Warns of shards whose replicas have not done what was asked for. Returns the exit code.
    pub(in crate::cli) fn warn_of_action(&self) -> Exit {
        self.warn_that(|are_several| match are_several {
            true => "the command has no effect on them, run it again",
            false => "the command has no effect on it, run it again",
        })
    }

    fn warn_that(&self, consequence: impl Fn(bool) -> &'static str) -> Exit {
        for missing in &self.missing {
            output::note(&missing.warning(consequence(missing.shards.len() > 1)));
        }
        match self.is_partial() {
            true => Exit::Partial,
            false => Exit::Done,
        }
    }

    /// ` in informant-0, informant-1`; nothing if one answer is all there is.
    pub(in crate::cli) fn in_replicas(&self) -> String {
        let names: Vec<_> = self.items.iter().filter_map(|item| item.replica.as_deref()).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!(" in {}", names.join(", ")),
        }
    }

    /// A part of each answer, with the replica that it is from.
    pub(in crate::cli) fn into_parts<P>(self, part: impl Fn(T) -> P) -> Vec<(Option<String>, P)> {
        let parts = self.items.into_iter().map(|item| (item.replica, part(item.answer)));
        parts.collect()
    }
}

impl<T> Answers<Result<T>> {
    /// Whether a replica has what was asked for, with [`or_not_found`].
    pub(in crate::cli) fn has_found(&self) -> bool {
        self.items.iter().any(|item| item.answer.is_ok())
    }

    /// The answers of replicas that have it.
    ///
    /// # Errors
    /// `not-found` of the first replica if none has it.
    pub(in crate::cli) fn found(self) -> Result<Vec<Answer<T>>> {
        let (mut found, mut absent) = (Vec::new(), None);
        for Answer { replica, answer } in self.items {
            match answer {
                Ok(answer) => found.push(Answer { replica, answer }),
                Err(error) => absent = absent.or(Some(error)),
            }
        }
        match absent {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }
}

/// An object is in one replica: that another one does not have it is no failure there.
pub(in crate::cli) fn or_not_found<T>(answer: Result<T>) -> Result<Result<T>> {
    match answer {
        Err(error) if !is(&error, Code::NotFound) => Err(error),
        answer => Ok(answer),
    }
}

fn is(error: &anyhow::Error, code: Code) -> bool {
    error
        .downcast_ref::<AdminError>()
        .is_some_and(|error| error.code == code)
}

impl MissingShards {
    /// `warning: shards 3, 5 (informant-2) did not answer: connection refused; what they have is missing`
    fn warning(&self, consequence: &str) -> String {
        let numbers: Vec<_> = self.shards.iter().map(ToString::to_string).collect();
        let plural = if numbers.len() > 1 { "s" } else { "" };
        let holder = self.holder.as_ref().map(|holder| format!(" ({holder})"));
        format!(
            "warning: shard{plural} {}{} did not answer: {}; {consequence}",
            numbers.join(", "),
            holder.unwrap_or_default(),
            self.reason
        )
    }
}

/// The shards of the answers so far.
struct SeenShards {
    /// The first replica.
    first: String,
    held: ShardSet,
    /// Into how many the work is divided.
    shards: u8,
    /// Replicas that did not answer, and why.
    failed: BTreeMap<String, String>,
}

impl SeenShards {
    fn new(part: &AnswerPart) -> Self {
        Self {
            first: part.replica.clone(),
            held: part.held,
            shards: part.shards,
            failed: BTreeMap::new(),
        }
    }

    /// The replicas to ask, by name.
    fn holders_of_lacking(&self, group: &ReplicasView) -> Vec<OtherReplica> {
        // While the number of shards changes, the present holders do not tell which replica has those of the answer.
        let is_changing = group.shards.len().max(1) != usize::from(self.shards);
        let holds_lacking = |name: &str| self.lacking().any(|shard| holder_of(group, shard) == Some(name));
        let others = group.items.iter().filter(|replica| {
            let may_have = is_changing || holds_lacking(&replica.name);
            replica.live && replica.name != self.first && may_have
        });
        let others = others.map(|replica| OtherReplica {
            name: replica.name.clone(),
            address: replica.address.clone(),
        });
        others.collect()
    }

    fn add(&mut self, part: Option<&AnswerPart>) {
        let is_new = |shard: &u8| match part {
            // It has everything.
            None => true,
            Some(part) => part.shards == self.shards && part.held.contains(*shard),
        };
        self.held = (0..self.shards)
            .filter(|shard| self.held.contains(*shard) || is_new(shard))
            .collect();
    }

    fn failed(&mut self, replica: String, reason: String) {
        self.failed.insert(replica, reason);
    }

    fn lacking(&self) -> impl Iterator<Item = u8> {
        (0..self.shards).filter(|shard| !self.held.contains(*shard))
    }

    /// What no replica has answered for, by the one that should have.
    fn missing(&self, group: &ReplicasView) -> Vec<MissingShards> {
        let mut by_holder: BTreeMap<Option<&str>, Vec<u8>> = BTreeMap::new();
        for shard in self.lacking() {
            by_holder.entry(holder_of(group, shard)).or_default().push(shard);
        }
        let missing = by_holder.into_iter().map(|(holder, shards)| MissingShards {
            shards,
            holder: holder.map(str::to_owned),
            reason: match holder.map(|holder| self.failed.get(holder)) {
                Some(Some(reason)) => reason.clone(),
                Some(None) => "moving from one replica to another, try again".to_owned(),
                None => "no holder now, `informant replicas` shows more".to_owned(),
            },
        });
        missing.collect()
    }

    fn missing_without_holders(&self, reason: &str) -> Vec<MissingShards> {
        vec![MissingShards {
            shards: self.lacking().collect(),
            holder: None,
            reason: format!("cannot find the replicas that hold them: {reason}"),
        }]
    }
}

/// The live replica that holds a shard.
fn holder_of(group: &ReplicasView, shard: u8) -> Option<&str> {
    match group.shards.iter().find(|view| view.shard == shard) {
        Some(view) => view.holder.as_deref(),
        // A single shard is not listed.
        None if group.shards.is_empty() => group.holder.as_deref(),
        None => None,
    }
}

fn is_this(group: &ReplicasView, name: &str) -> bool {
    group
        .items
        .iter()
        .any(|replica| replica.is_this && replica.name == name)
}

/// The replica that `--shard` means.
fn holder_for(group: &ReplicasView, shard: u8) -> Result<OtherReplica> {
    let shards = group.shards.len();
    if shards == 0 {
        bail!("--shard {shard}: the work is not divided into shards; `shards` in [ha] divides it");
    }
    if usize::from(shard) >= shards {
        bail!("--shard {shard}: there are {shards} shards, from 0 to {}", shards - 1);
    }
    let name = holder_of(group, shard);
    let mut holders = group.items.iter().filter(|replica| Some(replica.name.as_str()) == name);
    match holders.next() {
        Some(holder) => Ok(OtherReplica {
            name: holder.name.clone(),
            address: holder.address.clone(),
        }),
        None => bail!("no replica holds shard {shard} now; try again, `informant replicas` shows why"),
    }
}

#[cfg(test)]
mod tests;
