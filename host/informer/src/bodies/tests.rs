//! Reading bodies.
