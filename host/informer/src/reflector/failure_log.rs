//! Which failures of a source are logged as warnings.

use crate::status::ReflectorState;

/// The failures that were logged.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    /// The state that the last failure led to, unless the source has recovered since.
    last: Option<ReflectorState>,
}

impl FailureLog {
    /// Whether to warn of a failure that leads to `state`. A source that must not be read, or whose resource does not
    /// exist, stays like that until somebody changes it, and is visible in the status: one warning is enough. Other
    /// failures are rare enough, thanks to the back-off.
    pub(super) fn is_new(&mut self, state: ReflectorState) -> bool {
        let lasts = matches!(
            state,
            ReflectorState::ResourceMissing | ReflectorState::Forbidden | ReflectorState::Refused
        );
        self.last.replace(state) != Some(state) || !lasts
    }

    /// The source works again.
    pub(super) fn clear(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_failure_is_warned_of_once() {
        let mut log = FailureLog::default();
        assert!(log.is_new(ReflectorState::ResourceMissing));
        assert!(!log.is_new(ReflectorState::ResourceMissing));
        assert!(log.is_new(ReflectorState::Forbidden));
        assert!(log.is_new(ReflectorState::Disconnected));
        assert!(log.is_new(ReflectorState::Disconnected));
        log.clear();
        assert!(log.is_new(ReflectorState::Forbidden));
    }
}
