//! Commands to an actor of a plugin.

#[path = "../../../host/plugin/src/actor/command_flag.rs"]
mod command_flag;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
}

use std::sync::Arc;

use command_flag::CommandFlag;
use loom::sync::atomic::{AtomicBool, Ordering};

/// A queue as tokio's: the sender marks a slot as written, the receiver reads the mark. No lock orders the two.
struct Queue {
    written: [AtomicBool; 2],
    flag: CommandFlag,
}

impl Queue {
    fn send(&self, command: usize) {
        self.written[command].store(true, Ordering::Release);
        self.flag.raise();
    }

    /// Receives the next command after `received` others.
    fn try_receive(&self, received: usize) -> bool {
        let receive = || self.written.get(received)?.load(Ordering::Acquire).then_some(());
        self.flag.take(receive).is_some()
    }
}

#[test]
fn queued_command_is_never_overlooked() {
    loom::model(|| {
        let queue = Arc::new(Queue {
            written: [AtomicBool::new(false), AtomicBool::new(false)],
            flag: CommandFlag::new(),
        });
        let sender = Arc::clone(&queue);
        let sending = loom::thread::spawn(move || (0..2).for_each(|command| sender.send(command)));
        let mut received = 0;
        for _ in 0..2 {
            received += usize::from(queue.try_receive(received));
        }
        sending.join().unwrap();
        while queue.try_receive(received) {
            received += 1;
        }
        assert_eq!(received, 2, "a command is queued, and the flag is lowered");
    });
}
