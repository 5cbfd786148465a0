//! The plan on paper: what a group of replicas costs that divide objects into shards, computed. The measurement prints
//! its figures next to those of the model.
//!
//! ```text
//! Group ────▶ share ──▶ memory, lists, events, Leases, times ──▶ table of 1 to 1,000 replicas
//! Measured ──▶ Group of each figure ──▶ computed, measured, ratio
//! ```
//!
//! Constants that have no source are assumptions, and are marked as such. The model leaves out objects and plugins that
//! are not divided, kept deletes, instances of plugins, and calls that run during a hand-over.

use std::time::Duration;

use informant_cache::SHARDS_MAX;
use informant_lease::{LeaseTimes, MEMBERS_MAX, READY_FOR};

use crate::bench::figure::thousands;

/// The process without objects: docs/guides/capacity.md.
const PROCESS_BYTES: f64 = 24e6;

/// A watch with its queues: docs/guides/capacity.md.
const SOURCE_BYTES: f64 = 0.7e6;

/// The bytes of a cached pod divided by those of its JSON: docs/guides/capacity.md.
const CACHED: f64 = 0.6;

/// The CPU of an event that arrives alone, in seconds: docs/guides/capacity.md. One that is left out costs less.
const EVENT_CPU: f64 = 30e-6;

/// The CPU of a listed object over TLS that is kept, with a call that reads five fields, in microseconds:
/// docs/explanation/performance.md.
const KEPT_US: f64 = 9.3;

/// The same of one that is left out. An assumption: as much as an unchanged object of a relist, 2.1 us, and what TLS
/// adds to a listed one, 1.8 us.
const LEFT_OUT_US: f64 = 3.9;

/// How long one request about a Lease takes. `TRY_SPACING` of informant-lease counts on the same.
const LEASE_REQUEST: Duration = Duration::from_millis(10);

/// How long a hand-over takes without calls that run. An assumption: two writes, and twice what a watch delivers of
/// them.
const HAND_OVER: Duration = Duration::from_millis(50);

/// How long a replica takes at most to publish that it is ready: `LOOK_INTERVAL` of the daemon.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A list for other shards is abandoned after this time, and begins again: `SHARDS_HOLD_MAX` of the reflector.
const LIST_MAX: Duration = Duration::from_secs(600);

/// Namespaces of other shards that a list leaves out, if the replica knows them: `EXCLUDED_NAMESPACES_BYTES_MAX` of the
/// reflector, with names of about 13 bytes.
const EXCLUDED_NAMESPACES: f64 = 400.0;

/// The replicas of the table.
const PLANNED_REPLICAS: [u32; 5] = [1, 4, 16, 64, 1_000];

/// The group of the table. Its rates and events are assumptions: one CPU of the API server encodes a list, a network of
/// 10 Gbit/s sends all of them, and each object changes every 17 minutes.
const PLAN: Group = Group {
    replicas: 1,
    shards: SHARDS_MAX,
    objects: 10_000_000,
    bytes_per_object: 5_900.0,
    namespaces: 10_000,
    sources: 1,
    events_per_second: 10_000.0,
    times: LeaseTimes::DEFAULT,
    selects: false,
    list_bytes_per_second: 100e6,
    lists_bytes_per_second: 1e9,
};

/// Replicas that divide objects, and the API server that they read from. All numbers are at least 1.
#[derive(Clone, Copy, Debug)]
struct Group {
    replicas: u32,
    /// At most [`SHARDS_MAX`].
    shards: u8,
    /// Of all sources together, in equal parts.
    objects: u32,
    /// As JSON.
    bytes_per_object: f64,
    /// Namespaces that have equally many objects.
    namespaces: u32,
    /// Watches on objects, of each replica.
    sources: u32,
    /// Of each source.
    events_per_second: f64,
    times: LeaseTimes,
    /// The API server selects the objects of shards by their hash.
    selects: bool,
    /// How fast it sends one list.
    list_bytes_per_second: f64,
    /// How fast it sends all lists together.
    lists_bytes_per_second: f64,
}

/// Lists of several replicas at the same time.
#[derive(Clone, Copy, Debug)]
struct Lists {
    /// What the API server sends for all of them.
    bytes: f64,
    /// How many objects are read for all of them.
    objects: f64,
    /// Until the last one has ended. None: it takes longer than [`LIST_MAX`], so it never does.
    seconds: Option<f64>,
}

impl Group {
    /// How many replicas may hold shards: `min(replicas, MEMBERS_MAX)`. Each replica ignores further ones.
    fn candidates(&self) -> u32 {
        self.replicas.min(u32::try_from(MEMBERS_MAX).unwrap_or(u32::MAX)).max(1)
    }

    /// How many replicas hold shards: `min(candidates, shards)`. All further ones hold nothing.
    fn holders(&self) -> u32 {
        self.candidates().min(u32::from(self.shards)).max(1)
    }

    /// Of the replica that holds most: `ceil(shards / candidates)`.
    fn shards_of_largest(&self) -> u32 {
        u32::from(self.shards).div_ceil(self.candidates())
    }

    /// The share of the objects that this replica has if all shards are equal: `ceil(shards / candidates) / shards`.
    fn equal_share(&self) -> f64 {
        f64::from(self.shards_of_largest()) / f64::from(self.shards)
    }

    /// The expected share of the replica that has most objects, at least one namespace and at most all:
    /// `p + sqrt(2 × p × (1 − p) × ln(holders) / namespaces)`, with `p` the equal share.
    ///
    /// A hash throws namespaces into shards like balls into bins. Each holder has a binomial number of them, close to a
    /// normal one; the maximum of n such numbers is about `sqrt(2 × ln(n))` deviations above the mean. For 200
    /// namespaces and 8 shards that is 34.5 of them, where the largest shard of `team-1` to `team-200` has 36.
    fn largest_share(&self) -> f64 {
        let (share, namespaces) = (self.equal_share(), f64::from(self.namespaces.max(1)));
        let variance = share * (1.0 - share) / namespaces;
        let deviations = (2.0 * f64::from(self.holders()).ln()).sqrt();
        (share + deviations * variance.sqrt()).clamp(1.0 / namespaces, 1.0)
    }

    /// All objects as JSON: `objects × bytes_per_object`.
    fn bytes(&self) -> f64 {
        f64::from(self.objects) * self.bytes_per_object
    }

    /// Of the largest replica: `24 MB + sources × 0.7 MB + 0.6 × objects × bytes_per_object × largest_share`.
    fn memory_bytes(&self) -> f64 {
        PROCESS_BYTES + f64::from(self.sources) * SOURCE_BYTES + CACHED * self.bytes() * self.largest_share()
    }

    /// On objects, and one of each replica on the Leases: `replicas × (sources + 1)`.
    fn watches(&self) -> f64 {
        f64::from(self.replicas) * f64::from(self.sources + 1)
    }

    /// What the API server sends to all replicas: `replicas × sources × events_per_second`.
    ///
    /// If it selects, each event is sent to the holder of its shard alone, and to each replica without shards: the
    /// request of such a replica has no selector. `(1 + replicas − holders) × sources × events_per_second`.
    fn events_sent(&self) -> f64 {
        let receivers = match self.selects {
            true => 1 + self.replicas.saturating_sub(self.holders()),
            false => self.replicas,
        };
        f64::from(receivers) * f64::from(self.sources) * self.events_per_second
    }

    /// `events_sent × bytes_per_object`.
    fn event_bytes(&self) -> f64 {
        self.events_sent() * self.bytes_per_object
    }

    /// Of all replicas together, for events without their calls, at most: `events_sent × 30 us`.
    fn event_cores(&self) -> f64 {
        self.events_sent() * EVENT_CPU
    }

    /// Renewals of the Leases of members and shards: `replicas / member_retry + shards / retry`.
    fn lease_writes(&self) -> f64 {
        let members = f64::from(self.replicas) / self.times.member_retry().as_secs_f64();
        members + f64::from(self.shards) / self.times.retry.as_secs_f64()
    }

    /// Each replica watches all Leases: `replicas × lease_writes`.
    fn lease_deliveries(&self) -> f64 {
        f64::from(self.replicas) * self.lease_writes()
    }

    /// The share of the objects that a list leaves out, as their namespaces are known to be of other shards: `min(1 −
    /// largest_share, 400 / namespaces)`, or nothing if that is less than what is kept. A replica knows them once it
    /// has listed.
    fn excluded_share(&self) -> f64 {
        let kept = self.largest_share();
        let excluded = (1.0 - kept).min(EXCLUDED_NAMESPACES / f64::from(self.namespaces.max(1)));
        if excluded >= kept { excluded } else { 0.0 }
    }

    /// Lists of `replicas` replicas at the same time, each of all that it has: `one = bytes × share / sources`, with
    /// the largest share if the API server selects, else 1 without `excluded`. Together they are `replicas × sources ×
    /// one`; if it selects, no object is sent twice. They end after `max(one / list_bytes_per_second, together /
    /// lists_bytes_per_second)`.
    fn lists(&self, replicas: u32, excluded: f64) -> Lists {
        let replicas = f64::from(replicas);
        let (share, together) = match self.selects {
            true => (self.largest_share(), (replicas * self.largest_share()).min(1.0)),
            false => (1.0 - excluded, replicas * (1.0 - excluded)),
        };
        let one = self.bytes() * share / f64::from(self.sources.max(1));
        let bytes = self.bytes() * together;
        let seconds = (one / self.list_bytes_per_second).max(bytes / self.lists_bytes_per_second);
        Lists {
            bytes,
            objects: f64::from(self.objects) * together,
            seconds: (seconds <= LIST_MAX.as_secs_f64()).then_some(seconds),
        }
    }

    /// The lists after one of the largest replicas is lost: of `min(shards_of_largest, holders)` replicas, where the
    /// holders and shares are those without it. None: there is no other replica.
    fn lists_after_kill(&self) -> Option<Lists> {
        let replicas = self.replicas.checked_sub(1).filter(|replicas| *replicas > 0)?;
        let after = Group { replicas, ..*self };
        let gaining = self.shards_of_largest().min(after.holders());
        Some(after.lists(gaining, after.excluded_share()))
    }

    /// From the kill of a replica to the first calls for its shards, at most: `duration + 2 × 10 ms + lists`. The
    /// requests read the Lease once more, and acquire it. A plugin is called once the whole list is there.
    fn kill_seconds(&self) -> Option<f64> {
        let lists = self.lists_after_kill()?.seconds?;
        Some((self.times.duration + LEASE_REQUEST * 2).as_secs_f64() + lists)
    }

    /// How many shards move if one replica holds all, and the others come at the same time: `shards −
    /// shards_of_largest`. If one comes after the other, the nth replica receives `shards / n`, rounded down, so some
    /// shards move more than once.
    fn moves(&self) -> u32 {
        u32::from(self.shards).saturating_sub(self.shards_of_largest())
    }

    /// From when the last replica is ready until all hold an equal share: `1 s + READY_FOR + moves × 50 ms`, one
    /// hand-over at a time; without others, 1 s.
    ///
    /// A hand-over waits for the Lease only, and for no list.
    /// [`HAND_OVER_PAUSE`](informant_lease::HAND_OVER_PAUSE) does not count: it keeps the same shard from moving twice.
    fn equal_shares_seconds(&self) -> f64 {
        let moves = match self.replicas {
            0 | 1 => Duration::ZERO,
            _ => READY_FOR + self.moves() * HAND_OVER,
        };
        (LOOK_INTERVAL + moves).as_secs_f64()
    }

    /// The same until each holder has listed its objects: each begins its list again with each shard that moves, so
    /// `equal_shares + lists of all holders`.
    fn rebalanced_seconds(&self) -> Option<f64> {
        Some(self.equal_shares_seconds() + self.lists(self.holders(), 0.0).seconds?)
    }

    /// The CPU of a replica until it is synced, divided by that of one process that has everything: `share + (1 −
    /// share) × left out / kept`. If the API server selects, nothing is left out.
    fn sync_cpu_ratio(&self) -> f64 {
        let share = self.equal_share();
        match self.selects {
            true => share,
            false => share + (1.0 - share) * LEFT_OUT_US / KEPT_US,
        }
    }

    /// Its memory divided by that of one process that has everything.
    fn memory_ratio(&self) -> f64 {
        self.memory_bytes() / Group { replicas: 1, ..*self }.memory_bytes()
    }
}

/// Prints the table.
pub(in crate::bench) fn print() {
    println!(
        "computed: {} objects of {:.0} bytes in {} namespaces, {} events a second, {} shards; the API server sends \
         {} a second of one list, {} of all lists",
        count(PLAN.objects),
        PLAN.bytes_per_object,
        count(PLAN.namespaces),
        thousands(PLAN.events_per_second),
        PLAN.shards,
        bytes(PLAN.list_bytes_per_second),
        bytes(PLAN.lists_bytes_per_second)
    );
    println!(
        "selected: the API server selects by hash; never: a list takes longer than {LIST_MAX:?}\n\n{}",
        table()
    );
}

/// The planned group with each number of replicas, as a table in Markdown.
fn table() -> String {
    let groups = PLANNED_REPLICAS.map(|replicas| Group { replicas, ..PLAN });
    let mut lines = vec![
        line("replicas", groups.iter().map(|group| count(group.replicas))),
        format!("|---|{}", "---|".repeat(groups.len())),
    ];
    for (label, depends_on_selection, cell) in ROWS {
        lines.push(line(label, groups.iter().map(cell)));
        if depends_on_selection {
            let selected = groups.map(|group| Group { selects: true, ..group });
            lines.push(line(&format!("{label}, selected"), selected.iter().map(cell)));
        }
    }
    lines.join("\n")
}

fn line(label: &str, cells: impl Iterator<Item = String>) -> String {
    format!("| {label} | {} |", cells.collect::<Vec<_>>().join(" | "))
}

type Cell = fn(&Group) -> String;

/// The rows of the table: their labels, whether they depend on selection, and their cells.
const ROWS: [(&str, bool, Cell); 14] = [
    ("replicas that may hold shards", false, |group| {
        count(group.candidates())
    }),
    ("replicas that hold shards", false, |group| count(group.holders())),
    ("objects of the largest", false, |group| {
        millions(f64::from(group.objects) * group.largest_share())
    }),
    ("memory of the largest", false, |group| bytes(group.memory_bytes())),
    ("watches", false, |group| thousands(group.watches())),
    ("events sent a second", true, |group| thousands(group.events_sent())),
    ("their bytes a second", true, |group| bytes(group.event_bytes())),
    ("cores for them, at most", true, |group| {
        format!("{:.1}", group.event_cores())
    }),
    ("writes of Leases a second", false, |group| {
        thousands(group.lease_writes())
    }),
    ("deliveries of them a second", false, |group| {
        thousands(group.lease_deliveries())
    }),
    ("lists after a kill", true, |group| {
        let text = |lists: Lists| format!("{}, {}", bytes(lists.bytes), millions(lists.objects));
        group.lists_after_kill().map_or("–".to_owned(), text)
    }),
    ("kill to first calls", true, |group| match group.replicas {
        0 | 1 => "–".to_owned(),
        _ => seconds(group.kill_seconds()),
    }),
    ("moves from one replica, until shares are equal", false, |group| {
        let equal = seconds(Some(group.equal_shares_seconds()));
        format!("{}, {equal}", group.moves())
    }),
    ("until all is listed", true, |group| seconds(group.rebalanced_seconds())),
];

fn count(number: u32) -> String {
    thousands(f64::from(number))
}

fn millions(objects: f64) -> String {
    format!("{:.2} M", objects / 1e6)
}

fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 99.95e9 => format!("{} GB", thousands(bytes / 1e9)),
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes => format!("{} MB", thousands(bytes / 1e6)),
    }
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or("never".to_owned(), |seconds| format!("{seconds:.0} s"))
}

/// What was measured of groups of few replicas.
pub(super) struct Measured {
    group: Group,
    /// From the start of one process with everything to its last call, in seconds: it gives the rate of lists.
    pub(super) whole_seconds: Option<f64>,
    pub(super) parts: Vec<Part>,
    /// Numbers of replicas, and the seconds from when the last one is ready to equal shares.
    pub(super) equal_shares: Vec<(u32, f64)>,
    pub(super) kills: Vec<Kill>,
}

/// The largest of several replicas, and the CPU of one that comes, divided by those of one process with everything.
pub(super) struct Part {
    pub(super) replicas: u32,
    pub(super) selects: bool,
    pub(super) memory_ratio: f64,
    pub(super) cpu_ratio: f64,
}

/// One of several replicas was killed: until its objects were called elsewhere.
pub(super) struct Kill {
    pub(super) replicas: u32,
    pub(super) objects: u32,
    pub(super) selects: bool,
    pub(super) is_fast: bool,
    pub(super) seconds: f64,
}

/// A figure of the model next to the measured one.
pub(super) struct Comparison {
    figure: String,
    /// None: the model says that it never happens.
    computed: Option<f64>,
    measured: f64,
}

impl Measured {
    /// Nothing is measured yet.
    pub(super) fn new(shards: u8, objects: u32, namespaces: u32) -> Measured {
        Measured {
            group: Group {
                shards,
                objects,
                namespaces,
                ..PLAN
            },
            whole_seconds: None,
            parts: Vec::new(),
            equal_shares: Vec::new(),
            kills: Vec::new(),
        }
    }

    /// The group of a figure. All lists together have the measured rate: the machine has few CPUs.
    fn group(&self, replicas: u32) -> Group {
        let mut group = Group { replicas, ..self.group };
        if let Some(seconds) = self.whole_seconds {
            group.list_bytes_per_second = group.bytes() / seconds;
            group.lists_bytes_per_second = group.list_bytes_per_second;
        }
        group
    }
}

impl Comparison {
    /// Its line of the result.
    pub(super) fn line(&self) -> String {
        let text = |value: Option<f64>| value.map_or("never".to_owned(), |value| format!("{value:.2}"));
        let ratio = self.computed.map(|computed| self.measured / computed);
        format!(
            "{}: computed {}, measured {:.2}, ratio {}",
            self.figure,
            text(self.computed),
            self.measured,
            ratio.map_or("none".to_owned(), |ratio| format!("{ratio:.2}"))
        )
    }
}

/// Each measured figure with the computed one.
pub(super) fn compare(measured: &Measured) -> Vec<Comparison> {
    let mut all = Vec::new();
    let mut note = |replicas: u32, figure: &str, computed, measured| {
        let figure = format!("{replicas} replicas{figure}");
        all.push(Comparison {
            figure,
            computed,
            measured,
        });
    };
    for part in &measured.parts {
        let mut group = measured.group(part.replicas);
        group.selects = part.selects;
        let of = if part.selects { ", selected" } else { "" };
        let (memory, cpu) = (
            format!("{of}: memory of the largest, of that of one process"),
            format!("{of}: CPU until one is synced, of that of one process"),
        );
        note(part.replicas, &memory, Some(group.memory_ratio()), part.memory_ratio);
        note(part.replicas, &cpu, Some(group.sync_cpu_ratio()), part.cpu_ratio);
    }
    for (replicas, seconds) in &measured.equal_shares {
        let computed = measured.group(*replicas).equal_shares_seconds();
        note(*replicas, ": seconds until shares are equal", Some(computed), *seconds);
    }
    for kill in &measured.kills {
        let mut group = Group {
            objects: kill.objects,
            selects: kill.selects,
            ..measured.group(kill.replicas)
        };
        let of = if kill.selects { ", selected" } else { "" };
        let speed = if kill.is_fast { "fast" } else { "normal" };
        if kill.is_fast {
            group.times = LeaseTimes::FAST;
        }
        let figure = format!("{of}, speed = {speed:?}: seconds from a kill to its calls");
        note(kill.replicas, &figure, group.kill_seconds(), kill.seconds);
    }
    all
}

#[cfg(test)]
mod tests;
