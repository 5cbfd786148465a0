//! The daemon, in this process and as a program, against the embedded API server on a real socket, with the example
//! plugins and the test guests.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without")]

mod bad_input;
mod bindings;
mod building;
mod captures;
mod check_clusters;
mod checks;
mod clusters;
mod compiling;
mod configuration;
mod dead_letters;
mod dev;
mod events;
mod excludes;
mod files;
mod finalizers;
mod first_calls;
mod freshness;
mod guides;
mod hostile_text;
mod http;
mod http_bodies;
mod index_failures;
mod informer_grants;
mod keys;
mod metrics;
mod motion;
mod new_plugins;
mod own_writes;
mod pending_sections;
mod plugins;
mod poison;
mod ports;
mod preflight;
mod program;
mod reconcilers;
mod reload;
mod replicas;
mod requeues;
mod resources;
mod scenarios;
mod script_runners;
mod secured;
mod selections;
mod shards;
mod shared_state;
mod socket;
mod stopping;
mod wire_names;
mod world;
mod writes;
