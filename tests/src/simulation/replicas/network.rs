//! What lies between replicas and Informant's own cluster, where Leases and shared state are: it is slow, loses
//! requests and answers, and cuts off a replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::Environment;
use informant_lease::simulated::Server;
use informant_lease::{LeaseName, LeaseRequest, ReplicaInput, Seen};
use informant_state::{SecretAnswer, SecretFailure, SecretRequest, SecretVerb};
use tokio::sync::{mpsc, oneshot};

use super::super::history::Entry;
use super::super::rng::Rng;
use super::super::world::{World, locked};

/// How often a watch that is cut off looks whether it is connected again.
const CUT_LOOK: Duration = Duration::from_millis(200);

/// How long a process waits for an answer about a Secret: 4 s.
const SECRET_WAIT_MAX: Duration = Duration::from_secs(4);

const LEASES: usize = 0;
const SECRETS: usize = 1;

/// How bad the network is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    /// The most time of one way.
    pub(super) way_ms_max: u64,
    /// How many requests and how many answers are lost.
    pub(super) lost_percent: u64,
}

/// Informant's own cluster, and the ways to it.
pub(super) struct Network {
    world: Arc<World>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    /// On the ways to Leases, and to Secrets.
    weather: [Weather; 2],
    leases: Server,
    watches: Vec<mpsc::UnboundedSender<(LeaseName, Seen)>>,
    secrets: BTreeMap<String, (u64, Vec<u8>)>,
    secret_version: u64,
    terms: u32,
    /// The hosts that are cut off.
    cut: BTreeSet<usize>,
}

/// What becomes of a request.
struct Ways {
    there: Duration,
    back: Duration,
    is_lost: bool,
    is_answer_lost: bool,
}

impl Network {
    pub(super) fn new(world: &Arc<World>, rng: Rng) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            state: Mutex::new(State {
                rng,
                weather: Default::default(),
                leases: Server::default(),
                watches: Vec::new(),
                secrets: BTreeMap::new(),
                secret_version: 0,
                terms: 0,
                cut: BTreeSet::new(),
            }),
        })
    }

    /// For Leases, and for Secrets.
    pub(super) fn set_weather(&self, weather: [Weather; 2]) {
        locked(&self.state).weather = weather;
    }

    pub(super) fn cut_off(&self, host: usize) {
        locked(&self.state).cut.insert(host);
    }

    pub(super) fn connect_all(&self) {
        locked(&self.state).cut.clear();
    }

    /// The number of a term that begins now.
    pub(super) fn next_term(&self) -> u32 {
        let mut state = locked(&self.state);
        state.terms += 1;
        state.terms
    }

    /// Somebody deletes the Lease that says who acts for a shard.
    pub(super) fn delete_lease(&self, shard: u8) {
        let (mut state, name) = (locked(&self.state), LeaseName::Shard(shard));
        if let Some(seen) = state.leases.delete(&name) {
            state.show(&name, &seen);
        }
    }

    /// Sends a request about a Lease; the answer comes into `inbox`, if it comes.
    pub(super) fn send(
        self: &Arc<Self>,
        host: usize,
        name: LeaseName,
        request: LeaseRequest,
        inbox: mpsc::UnboundedSender<ReplicaInput>,
    ) {
        let (network, ways) = (Arc::clone(self), self.ways(host, LEASES));
        let flight = async move {
            network.pass(ways.there).await;
            if ways.is_lost || network.is_cut(host) {
                return;
            }
            let answer = {
                let mut state = locked(&network.state);
                let (answer, seen) = state.leases.apply(&name, request.kind);
                seen.iter().for_each(|seen| state.show(&name, seen));
                answer
            };
            network.pass(ways.back).await;
            if !ways.is_answer_lost && !network.is_cut(host) {
                // The process may be gone.
                let _ = inbox.send(ReplicaInput::Answer(name, request.id, answer));
            }
        };
        self.world.environment.spawn("lease request", Box::pin(flight));
    }

    /// Lists and watches all Leases.
    pub(super) fn watch(self: &Arc<Self>, host: usize, inbox: mpsc::UnboundedSender<ReplicaInput>) {
        let (shown, mut shows) = mpsc::unbounded_channel();
        let listed: Vec<(LeaseName, Seen)> = {
            let mut state = locked(&self.state);
            state.watches.push(shown);
            let records = state.leases.iter();
            records
                .map(|(name, record)| (name.clone(), Seen::Record(record.clone())))
                .collect()
        };
        let network = Arc::clone(self);
        let watch = async move {
            network.pass(network.ways(host, LEASES).back).await;
            for (name, seen) in listed {
                let _ = inbox.send(ReplicaInput::Seen(name, seen));
            }
            let _ = inbox.send(ReplicaInput::Synced);
            while let Some((name, seen)) = shows.recv().await {
                network.pass(network.ways(host, LEASES).back).await;
                while network.is_cut(host) {
                    network.pass(CUT_LOOK).await;
                }
                if inbox.send(ReplicaInput::Seen(name, seen)).is_err() {
                    return;
                }
            }
        };
        self.world.environment.spawn("lease watch", Box::pin(watch));
    }

    /// Sends a request about a Secret from this term. It may take effect although the caller no longer
    /// waits.
    pub(super) async fn send_secret(self: Arc<Self>, host: usize, term: u32, request: SecretRequest) -> SecretAnswer {
        let (network, ways) = (Arc::clone(&self), self.ways(host, SECRETS));
        let (answered, answer) = oneshot::channel();
        if ways.there.is_zero() && ways.back.is_zero() && !ways.is_lost && !self.is_cut(host) {
            return self.apply(term, &request);
        }
        let flight = async move {
            network.pass(ways.there).await;
            if ways.is_lost || network.is_cut(host) {
                return network.pass(SECRET_WAIT_MAX).await;
            }
            let answer = network.apply(term, &request);
            network.pass(ways.back).await;
            match ways.is_answer_lost || network.is_cut(host) {
                true => network.pass(SECRET_WAIT_MAX).await,
                // The process may be gone.
                false => drop(answered.send(answer)),
            }
        };
        self.world.environment.spawn("secret request", Box::pin(flight));
        let failed = |message: &str| {
            SecretAnswer::Failed(SecretFailure {
                message: message.to_owned(),
                is_denied: false,
                retry_after: None,
            })
        };
        tokio::select! {
            biased;
            answer = answer => answer.unwrap_or_else(|_| failed("the connection was closed")),
            () = self.world.environment.sleep(SECRET_WAIT_MAX) => failed("no answer"),
        }
    }

    fn apply(&self, term: u32, request: &SecretRequest) -> SecretAnswer {
        let answer = locked(&self.state).apply(request);
        if matches!(answer, SecretAnswer::Written { .. }) {
            self.world.record(Entry::StateWritten { term });
        }
        answer
    }

    fn ways(&self, host: usize, to: usize) -> Ways {
        let mut state = locked(&self.state);
        let Weather {
            way_ms_max,
            lost_percent,
        } = state.weather[to];
        let is_cut = state.cut.contains(&host);
        let mut way = || Duration::from_millis(state.rng.below(way_ms_max + 1));
        let (there, back) = (way(), way());
        Ways {
            there,
            back,
            is_lost: is_cut || state.rng.percent(lost_percent),
            is_answer_lost: state.rng.percent(lost_percent),
        }
    }

    fn is_cut(&self, host: usize) -> bool {
        locked(&self.state).cut.contains(&host)
    }

    async fn pass(&self, time: Duration) {
        if !time.is_zero() {
            self.world.environment.sleep(time).await;
        }
    }
}

impl State {
    fn show(&mut self, name: &LeaseName, seen: &Seen) {
        self.watches
            .retain(|watch| watch.send((name.clone(), seen.clone())).is_ok());
    }

    fn apply(&mut self, request: &SecretRequest) -> SecretAnswer {
        let found = self.secrets.get(&request.name);
        let data = match (&request.verb, found) {
            (SecretVerb::Get | SecretVerb::Update(..), None) => return SecretAnswer::Missing,
            (SecretVerb::Get, Some((version, data))) => {
                let (version, data) = (version.to_string(), data.clone());
                return SecretAnswer::Found { version, data };
            }
            (SecretVerb::Create(data), None) => data,
            (SecretVerb::Update(data, expected), Some((version, _))) if version.to_string() == *expected => data,
            (SecretVerb::Create(_) | SecretVerb::Update(..), Some(_)) => return SecretAnswer::Conflict,
        };
        self.secret_version += 1;
        let version = self.secret_version;
        self.secrets.insert(request.name.clone(), (version, data.to_vec()));
        SecretAnswer::Written {
            version: version.to_string(),
        }
    }
}
