//! Who of several replicas acts, by Leases of the Kubernetes API.
//!
//! ```text
//!               ReplicaLeases:
//! member Leases ──watch──▶ Members ──Candidates, Task──▶ Election of each shard ──requests──▶ its Lease
//!       ▲ Membership: the own one                          │ ▲ watch, answers
//!                                                          ▼
//!                                                         Gate: may an effect begin now, and when must it have ended?
//! ```
//!
//! This crate is pure: no I/O, no async, no clock, no randomness. It knows nothing of kube: the caller converts
//! [`LeaseContent`] to and from API objects, sends each [`LeaseRequest`], and passes answers and what a watch delivers
//! back in. Moments are those of a clock that counts while the machine sleeps ([`Environment::boot_now`]). Moments of
//! two machines are never compared: a candidate counts from when it observed a Lease itself.
//!
//! Start at [`ReplicaLeases`] and [`Election`], which list the rules, and [`Gate`], which states what they promise.
//! `simulation` tests them with several replicas, pauses, partitions, edits by hand and changed layouts.
//!
//! Its modules, lowest layer first; none imports from a layer above its own:
//!
//! ```layers
//! layout times
//! gate record
//! members
//! assignment request
//! standing
//! election membership
//! replica
//! simulated
//! ```
//!
//! [`Environment::boot_now`]: informant_cache::Environment::boot_now

mod assignment;
mod election;
mod gate;
mod layout;
mod members;
mod membership;
mod record;
mod replica;
mod request;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
#[cfg(test)]
mod simulation;
mod standing;
mod times;

pub use election::{Election, ElectionInput, HAND_OVER_MAX, HAND_OVER_PAUSE, Seal, Task};
pub use gate::{Gate, Permit};
pub use layout::Layout;
pub use members::{Candidates, MEMBERS_MAX, Member, MemberRecord, Members, READY_FOR};
pub use membership::{Membership, MembershipInput};
pub use record::{
    ANNOTATION_PREFIX, LEASE_DURATION_MAX, LeaseContent, LeaseRecord, NOTES_BYTES_MAX, Notes, NotesTooLarge,
    TRANSITIONS_MAX,
};
pub use replica::{LeaseName, ReplicaInput, ReplicaLeases};
pub use request::{LeaseAnswer, LeaseRequest, RequestId, RequestKind, Seen};
pub use standing::{Obstacle, ReleaseReason, StandbyReason, Standing};
pub use times::{LeaseTimes, PREFERRED_FIRST, TRY_SPACING};
