//! The shared informer as its users see it, on the embedded API server.

mod comes_and_goes;
mod durable;
mod freshness;
mod handlers;
mod indexes;
mod life;
mod load;
mod random;
mod reconfigure;
mod registrations;
