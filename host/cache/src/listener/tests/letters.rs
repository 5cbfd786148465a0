//! The last dead letter.

use super::*;

fn last(rig: &Rig) -> Option<String> {
    let letter = rig.listener.last_dead_letter();
    letter.map(|letter| letter.key.name().to_owned())
}

#[test]
fn the_last_dead_letter_is_the_newest_that_is_listed_still() {
    let mut rig = Rig::new(options());
    assert_eq!(last(&rig), None);
    for name in ["b", "a", "c"] {
        rig.set(name, 1);
        rig.take();
        rig.answer(permanent());
        assert_eq!(last(&rig).as_deref(), Some(name));
    }
    rig.set("c", 2);
    rig.take();
    rig.answer(Outcome::Ok);
    assert_eq!(last(&rig).as_deref(), Some("a"));
}
