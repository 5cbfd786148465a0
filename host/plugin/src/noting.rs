//! What a plugin is busy with, for people who ask why nothing moves.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::shared::Shared;
use crate::status::StuckOn;

/// Waits for `call`, and notes in the status what it is about while it takes longer than a moment. A call that ends at
/// once costs nothing.
pub(crate) async fn noting<T>(shared: &Shared, about: impl Fn() -> StuckOn, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    let mut noted = false;
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(answer) => {
            if noted {
                shared.fares().stuck_on = None;
            }
            Poll::Ready(answer)
        }
        Poll::Pending => {
            if !noted {
                noted = true;
                shared.fares().stuck_on = Some(about());
            }
            Poll::Pending
        }
    })
    .await
}
