use super::*;
use crate::observed::{EffectKind, PluginObserver};

fn effects() -> Effects {
    withheld(true)
}

fn effect(target: impl Into<String>) -> Effect {
    Effect::new(EffectKind::Kv, "set", target)
}

#[test]
fn the_oldest_effect_is_dropped_at_the_limit() {
    let effects = effects();
    for number in 0..EFFECTS_MAX + 2 {
        effects.record(effect(number.to_string()));
    }
    let list = effects.list();
    assert_eq!((list.effects.len(), list.dropped), (EFFECTS_MAX, 2));
    assert_eq!(list.effects[0].target, "2");
}

#[test]
fn long_texts_of_effects_are_cut() {
    let effects = effects();
    let long = "é".repeat(EFFECT_TEXT_BYTES_MAX);
    effects.record(Effect {
        cluster: long.clone(),
        detail: long.clone(),
        error: Some(long.clone()),
        // The method of a request is the guest's own text.
        ..Effect::new(EffectKind::Http, long.clone(), long)
    });
    let effect = effects.list().effects.remove(0);
    let texts = [effect.action, effect.cluster, effect.target, effect.detail];
    for text in texts.iter().chain(&effect.error) {
        assert_eq!(text.len(), EFFECT_TEXT_BYTES_MAX + '…'.len_utf8());
        assert!(text.ends_with('…'));
    }
}

#[test]
fn a_new_dry_run_starts_with_an_empty_list() {
    let effects = effects();
    effects.record(effect("a"));
    effects.set_dry_run(true);
    effects.set_dry_run(false);
    assert_eq!(effects.list().effects.len(), 1, "it can still be read");
    effects.set_dry_run(true);
    assert_eq!(
        effects.list(),
        EffectList {
            is_dry_run: true,
            ..EffectList::default()
        }
    );
}

/// Notes what it is asked for.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl ActingGate for Asked {
    fn remaining(&self, acts_for: ActsFor<'_>) -> Option<Duration> {
        lock(&self.0).push(format!("{acts_for:?}"));
        Some(Duration::MAX)
    }
}

#[test]
fn the_gate_is_asked_for_objects_of_divided_plugins_only() {
    let asked = Arc::new(Asked::default());
    let env: Arc<dyn Environment> = Arc::new(crate::testing::TokioTime);
    let gate = Some(Arc::clone(&asked) as Arc<dyn ActingGate>);
    let effects = Effects::new(false, &env, Arc::default(), Observed::default(), gate, false);
    let object = Some((SourceId(7), KeyRef::new("web", "a")));
    assert!(effects.admit_call(object) && effects.may_act(None));
    let mut spec = PluginSpec::new("greeter", "greeter.wasm");
    spec.is_divided = true;
    effects.configure(&spec);
    assert!(effects.admit_call(object) && effects.may_act(None));
    let expected = ["Whole", "Whole", "Whole", r#"Object(SourceId(7), "web/a")"#, "AnyShard"];
    assert_eq!(*lock(&asked.0), expected);
}

/// Notes each effect, and whether it was withheld.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<(String, bool)>>);

impl PluginObserver for Seen {
    fn had_effect(&self, plugin: &str, effect: &Effect, is_withheld: bool) {
        let seen = format!("{plugin} {} {}", effect.action, effect.target);
        lock(&self.0).push((seen, is_withheld));
    }
}

#[test]
fn an_observer_receives_what_was_done_and_withheld() {
    let seen = Arc::new(Seen::default());
    let observer: Arc<dyn PluginObserver> = Arc::clone(&seen) as _;
    let env: Arc<dyn Environment> = Arc::new(crate::testing::TokioTime);
    let observed = Observed::new(&Arc::from("greeter"), Some(&observer));
    let effects = Effects::new(false, &env, Arc::default(), observed, None, false);
    effects.made(|| effect("a"));
    effects.set_dry_run(true);
    effects.record(effect("b"));
    let expected = [("greeter set a".to_owned(), false), ("greeter set b".to_owned(), true)];
    assert_eq!(*lock(&seen.0), expected);
    assert_eq!(effects.list().effects.len(), 1, "only what was withheld is listed");
    withheld(false).made(|| panic!("there is no observer"));
}
