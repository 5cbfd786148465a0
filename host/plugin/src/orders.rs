//! What a plugin's actors are told from outside, and how they wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informant_cache::{Environment, IndexFeedHandle, Moment};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::described::Described;
use crate::error::Problem;
use crate::instance::Instance;
use crate::plugin::Takeover;
use crate::terms::Terms;

/// Orders that wait for one actor. There is one swap at a time, and people resume and stop; a full queue makes the next
/// of them wait.
const ORDERS_MAX: usize = 16;

/// What an actor is told. Obeyed between two calls into its guest.
pub(crate) enum Order {
    /// Begin to work.
    Start,
    /// Another version takes over.
    Swap(Box<Successor>),
    /// The section changed in what the instance need not be made again for.
    Amend(Arc<Terms>),
    /// End a quarantine.
    Resume,
    /// No more events come: deliver what is left, then end.
    Drain,
}

/// The version that takes over, ready to work.
pub(crate) struct Successor {
    /// What it was made under.
    pub(crate) terms: Arc<Terms>,
    pub(crate) version: Described,
    /// None if the version has no role for this actor.
    pub(crate) instance: Option<Instance>,
    /// Where the indexes it computes go; none if it computes none. For the index actor only.
    pub(crate) feed: Option<IndexFeedHandle>,
    pub(crate) how: Takeover,
    /// Told when it has taken over, with how many bytes of state; or why it has not.
    pub(crate) done: oneshot::Sender<Result<Option<usize>, Problem>>,
}

/// Gives orders to one actor.
#[derive(Clone)]
pub(crate) struct OrderSender {
    orders: mpsc::Sender<Order>,
    waiting: Arc<AtomicBool>,
}

/// Where one actor gets its orders from, and what wakes it.
pub(crate) struct Inbox {
    orders: mpsc::Receiver<Order>,
    waiting: Arc<AtomicBool>,
    bell: Arc<Notify>,
    env: Arc<dyn Environment>,
    abort: CancellationToken,
}

/// Why an actor stops waiting.
pub(crate) enum Woken {
    /// There may be something to pull.
    Work,
    /// The time it waited for has come.
    Time,
    Order(Order),
    /// It is to end at once: the plugin is gone, or its time is over.
    End,
}

/// A channel for orders. `abort` ends whoever waits on the inbox.
pub(crate) fn orders(env: Arc<dyn Environment>, abort: CancellationToken) -> (OrderSender, Inbox) {
    let (sender, receiver) = mpsc::channel(ORDERS_MAX);
    let waiting = Arc::new(AtomicBool::new(false));
    let inbox = Inbox {
        orders: receiver,
        waiting: Arc::clone(&waiting),
        bell: Arc::default(),
        env,
        abort,
    };
    (
        OrderSender {
            orders: sender,
            waiting,
        },
        inbox,
    )
}

impl OrderSender {
    /// Gives an order. Returns whether there is an actor left to obey it.
    pub(crate) async fn send(&self, order: Order) -> bool {
        let sent = self.orders.send(order).await.is_ok();
        self.waiting.store(true, Ordering::Release);
        sent
    }
}

impl Inbox {
    /// Wakes the actor; to be given away as a waker.
    pub(crate) fn bell(&self) -> Arc<dyn Fn() + Send + Sync> {
        let bell = Arc::clone(&self.bell);
        Arc::new(move || bell.notify_one())
    }

    /// The next order, if one waits. Costs one load where there is none, so it can be asked after each event.
    pub(crate) fn order(&mut self) -> Option<Order> {
        if !self.waiting.load(Ordering::Acquire) {
            return None;
        }
        self.waiting.store(false, Ordering::Release);
        let order = self.orders.try_recv().ok()?;
        // There may be another one behind it.
        self.waiting.store(true, Ordering::Release);
        Some(order)
    }

    /// Whether an order may wait.
    pub(crate) fn has_order(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether the actor is to end at once.
    pub(crate) fn is_over(&self) -> bool {
        self.abort.is_cancelled()
    }

    /// Waits for work, an order, or `until`.
    pub(crate) async fn wait(&mut self, until: Option<Moment>) -> Woken {
        let timer = until.map(|until| self.env.sleep(until - self.env.now()));
        let timer = async {
            match timer {
                Some(timer) => timer.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.abort.cancelled() => Woken::End,
            order = self.orders.recv() => order.map_or(Woken::End, Woken::Order),
            () = self.bell.notified() => Woken::Work,
            () = timer => Woken::Time,
        }
    }

    /// Waits for an order or `until`, whatever work there is.
    pub(crate) async fn wait_for_order(&mut self, until: Option<Moment>) -> Woken {
        loop {
            match self.wait(until).await {
                Woken::Work => {}
                woken => return woken,
            }
        }
    }
}
