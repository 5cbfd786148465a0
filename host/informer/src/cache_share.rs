//! [`CacheShare`]: a source's part in the budgets of caches, as its reflector and its loop share it.

use std::sync::{Arc, Mutex, PoisonError};

use informant_cache::{BudgetShare, CacheBudget};
use informant_object::Projection;
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct CacheShare {
    pub(crate) budget: BudgetShare,
    /// Notified when the source is asked to free bytes.
    asked: Arc<Notify>,
    /// What heads keep besides metadata; none if the store cannot do with heads.
    head_fields: Mutex<Option<Arc<Projection>>>,
}

/// The membership of the loop, which is the only one to answer the budget. Ends with the loop, also if that panics.
pub(crate) struct Membership(pub(crate) Arc<CacheShare>);

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.budget.leave();
    }
}

impl CacheShare {
    pub(crate) fn join(budgets: Vec<CacheBudget>) -> Self {
        let asked = Arc::new(Notify::new());
        let notify = Arc::clone(&asked);
        Self {
            budget: CacheBudget::join(budgets, move || notify.notify_one()),
            asked,
            head_fields: Mutex::default(),
        }
    }

    /// Resolves when the source is asked to free bytes.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(crate) fn head_fields(&self) -> Option<Arc<Projection>> {
        self.head_fields.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_head_fields(&self, fields: Option<Arc<Projection>>) {
        *self.head_fields.lock().unwrap_or_else(PoisonError::into_inner) = fields;
    }
}
