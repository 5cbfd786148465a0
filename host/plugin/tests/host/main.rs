//! The plugin host with real guests: rejected plugins, containment, and that no event is lost.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without")]

mod c;
mod candidates;
mod conformance;
mod containment;
mod delivery;
mod dry_run;
mod fetch;
mod gate;
mod http;
mod indexes;
mod instances;
mod isolation;
mod javascript;
mod kube;
mod kv;
mod languages;
mod memory;
mod metrics;
mod newer;
mod not_ready;
mod pages;
mod pauses;
mod reconcilers;
mod reconfigure;
mod refusals;
mod requeued_writes;
mod requeues;
mod retries;
mod rollbacks;
mod rules;
mod runners;
mod script_cache;
mod scripts;
mod standby;
mod starts;
mod states;
mod swaps;
mod timers;
mod uids;
mod world;
mod writes;
mod writes_and_cache;
