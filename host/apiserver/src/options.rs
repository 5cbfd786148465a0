//! The options of a server, and the named limits behind the defaults.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Clock;

/// How many changes of one resource are kept for watches, exact lists and continue tokens.
///
/// A watch or list from before the oldest one gets 410. kube-apiserver's watch cache adapts between 100 and
/// 102,400.
pub(crate) const HISTORY_EVENTS_MAX: usize = 10_000;

/// How many bytes of object bodies the kept changes of one resource may hold; the oldest are dropped first.
pub(crate) const HISTORY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How many changes since it was opened a watch may leave unread. Beyond it, the watch is closed silently, as
/// kube-apiserver closes a watcher whose channel is full. Counted in
/// [`Stats::watches_closed_slow`](crate::Stats::watches_closed_slow).
pub(crate) const WATCH_BACKLOG_EVENTS_MAX: usize = 4_096;

/// Largest body of a request. Above it the response is 413, as in kube-apiserver (`MaxRequestBodyBytes`).
pub(crate) const REQUEST_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How many requests [`ApiServer::requests`](crate::ApiServer::requests) keeps; the oldest are dropped first.
pub(crate) const REQUESTS_KEPT_MAX: usize = 10_000;

/// How often a quiet watch with `allowWatchBookmarks` gets a bookmark. kube-apiserver: once a minute.
pub(crate) const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// How long before its deadline a watch gets its last bookmark. kube-apiserver: 2 s.
pub(crate) const LAST_BOOKMARK_LEAD: Duration = Duration::from_secs(2);

/// Shortest duration of a watch without `timeoutSeconds`; the longest is twice that (kube-apiserver's
/// `--min-request-timeout`).
pub(crate) const WATCH_TIMEOUT_MIN: Duration = Duration::from_secs(1_800);

/// 2026-01-01T00:00:00Z in seconds since 1970, the default start time of a server.
const DEFAULT_START_UNIX_SECONDS: i64 = 1_767_225_600;

/// How an [`ApiServer`](crate::ApiServer) behaves.
///
/// Two servers with equal options that get the same requests at the same times give byte-identical responses.
#[derive(Clone)]
pub struct Options {
    /// The seed of uids, generated names and watch deadlines.
    pub seed: u64,
    /// The server's time.
    pub clock: Clock,
    /// The calendar time when `clock` started; creation timestamps are `start` and the time since then.
    pub start: Timestamp,
    /// See `HISTORY_EVENTS_MAX`.
    pub history_events_max: usize,
    /// See `HISTORY_BYTES_MAX`.
    pub history_bytes_max: usize,
    /// See `WATCH_BACKLOG_EVENTS_MAX`.
    pub watch_backlog_events_max: usize,
    /// See `BOOKMARK_INTERVAL`.
    pub bookmark_interval: Duration,
    /// See `WATCH_TIMEOUT_MIN`.
    pub watch_timeout_min: Duration,
    /// Whether `sendInitialEvents` is supported (WatchList, on in Kubernetes since 1.34). If not, it is refused with
    /// 422, as by a server whose feature gate is off.
    pub watch_list: bool,
    /// Whether `shardSelector` is supported (KEP-5866, off in Kubernetes 1.36). If not, it is ignored, as by a server
    /// whose feature gate `ShardedListAndWatch` is off.
    pub sharded_list_and_watch: bool,
    /// Whether a list at `resourceVersion=0` respects `limit`. A kube-apiserver with a watch cache does not.
    pub paging_at_zero: bool,
    /// Whether `/informant/faults` is served. Meant for the demo; off by default.
    pub faults_over_http: bool,
}

impl Options {
    /// The defaults with the current time as `start`, so that ages are meaningful to people.
    pub fn at_wall_time() -> Self {
        Self {
            start: Timestamp::now(),
            ..Self::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            clock: Clock::default(),
            start: Timestamp::from_second(DEFAULT_START_UNIX_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH),
            history_events_max: HISTORY_EVENTS_MAX,
            history_bytes_max: HISTORY_BYTES_MAX,
            watch_backlog_events_max: WATCH_BACKLOG_EVENTS_MAX,
            bookmark_interval: BOOKMARK_INTERVAL,
            watch_timeout_min: WATCH_TIMEOUT_MIN,
            watch_list: true,
            sharded_list_and_watch: false,
            paging_at_zero: false,
            faults_over_http: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("start", &self.start)
            .field("history_events_max", &self.history_events_max)
            .field("watch_list", &self.watch_list)
            .finish_non_exhaustive()
    }
}
