//! What the screen and the plain tables show.

use clap::Parser as _;
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use super::columns::SortBy;
use super::keys::{Action, View};
use super::known::Known;
use super::link::{Message, Update};
use super::{plain, screen};
use crate::cli::Cli;
use crate::escape::{Escaped, Form};

const BY_CALLS: (SortBy, bool) = (SortBy::Calls, false);

fn apply(known: &mut Known, topic: &str, data: &Value) {
    let message = Message {
        topic: topic.to_owned(),
        data: data.to_string().into_bytes(),
    };
    known.apply(Update::Message(message)).unwrap();
}

fn rows(known: &mut Known, topic: &str, rows: &[Value]) {
    apply(known, topic, &json!({"all": true, "changed": rows, "removed": []}));
}

fn overview() -> Value {
    json!({"pod": "informant-0", "ready": true, "memory": {"residentBytes": 88_080_384, "limitBytes": 536_870_912_u64,
        "cacheBytes": 12_582_912, "cacheMaxBytes": 67_108_864}, "series": {"names": []}})
}

/// A daemon with three plugins and two sources.
fn known() -> Known {
    let mut known = Known::default();
    apply(&mut known, "overview", &overview());
    let plugins = [
        json!({"name": "labeler", "state": "running", "sha256": "1", "perSecond": 12.5, "cpu": 0.031, "lagMs": 200,
            "memoryBytes": 2_097_152, "effectsPerSecond": 3.0, "pending": 4}),
        json!({"name": "image-updates", "state": "running", "sha256": "2", "perSecond": 0.5, "cpu": 0.2, "lagMs": 0,
            "memoryBytes": 9_437_184, "effectsPerSecond": 0}),
        json!({"name": "restarter", "state": "quarantined", "sha256": "3", "pending": 31, "perSecond": 0, "cpu": 0,
            "effectsPerSecond": 0}),
        json!({"name": "broken", "state": "refused"}),
    ];
    rows(&mut known, "plugins", &plugins);
    let sources = [
        json!({"key": "1", "informer": "pods", "resource": "v1/pods", "state": "Live", "objects": 1_204,
            "bytes": 5_242_880, "perSecond": 13.0}),
        json!({"key": "2", "informer": "secrets", "resource": "v1/secrets", "namespace": "shop", "cluster": "east",
            "state": "Forbidden", "perSecond": 0}),
    ];
    rows(&mut known, "sources", &sources);
    known
}

fn many() -> Known {
    let mut known = known();
    let plugin = |number: u32| {
        json!({"name": format!("plugin-{number:03}"), "state": "running", "sha256": "1", "perSecond": number, "cpu": 0,
            "effectsPerSecond": 0})
    };
    rows(&mut known, "plugins", &(0..200).map(plugin).collect::<Vec<_>>());
    known
}

/// The screen as text, without the spaces at the ends of lines.
fn shown(known: &Known, view: &mut View, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, known, view, true)).unwrap();
    let cells = terminal.backend().buffer().content();
    let lines = cells.chunks(usize::from(width.max(1))).map(|line| {
        let text: String = line.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn at_first(known: &Known, size: (u16, u16)) -> String {
    shown(known, &mut View::new(BY_CALLS), size)
}

fn press(view: &mut View, codes: &[KeyCode]) {
    for code in codes {
        assert_eq!(view.press(KeyEvent::from(*code)), Action::Redraw);
    }
}

const WIDE: (u16, u16) = (80, 24);
const NARROW: (u16, u16) = (40, 10);

#[test]
fn a_screen_shows_head_plugins_and_sources() {
    insta::assert_snapshot!(at_first(&known(), WIDE), @"
    informant-0: ready, 13.0 calls/s, lag 200ms, CPU 0.231, memory 84MiB of 512MiB
    4 plugins, 2 sources (1 not live), 1204 objects, 13.0 events/s, cache 12MiB of …
    > PLUGIN                      STATE CALLS/S▼     CPU     LAG   MEMORY  EFFECTS/S
    labeler                     running     12.5   0.031   200ms   2.0MiB        3.0
    image-updates               running      0.5   0.200     0ms   9.0MiB          0
    broken                      refused        -       -       -        -          -
    restarter               quarantined        0   0.000     0ms       0B          0













    SOURCE                                          STATE  OBJECTS EVENTS/S   MEMORY
    secrets v1/secrets in shop in cluster ea…   Forbidden        0        0       0B
    pods v1/pods                                     Live     1204     13.0   5.0MiB
    q quit   s sort   r reverse   Tab plugins, sources   ? help
    ");
    insta::assert_snapshot!(at_first(&known(), NARROW), @"
    informant-0: ready, 13.0 calls/s, lag 2…
    4 plugins, 2 sources (1 not live), 1204…
    > PLUGIN                CALLS/S▼     CPU
    labeler                     12.5   0.031
    image-updates                0.5   0.200
    broken                         -       -
    restarter                      0   0.000


    q quit   s sort   r reverse   Tab plugi…
    ");
}

#[test]
fn sources_have_a_small_screen_to_themselves() {
    let mut view = View::new(BY_CALLS);
    press(&mut view, &[KeyCode::Tab]);
    insta::assert_snapshot!(shown(&known(), &mut view, NARROW), @"
    informant-0: ready, 13.0 calls/s, lag 2…
    4 plugins, 2 sources (1 not live), 1204…
    > SOURCE                           STATE
    secrets v1/secrets in shop …   Forbidden
    pods v1/pods                        Live




    q quit   s sort   r reverse   Tab plugi…
    ");
}

#[test]
fn many_plugins_are_scrolled() {
    let known = many();
    let mut view = View::new((SortBy::Name, false));
    insta::assert_snapshot!(shown(&known, &mut view, WIDE), @"
    informant-0: ready, 19900 calls/s, lag 0ms, CPU 0.000, memory 84MiB of 512MiB
    200 plugins, 2 sources (1 not live), 1204 objects, 13.0 events/s, cache 12MiB o…
    > PLUGIN▲ 1-16/200            STATE  CALLS/S     CPU     LAG   MEMORY  EFFECTS/S
    plugin-000                  running        0   0.000     0ms       0B          0
    plugin-001                  running      1.0   0.000     0ms       0B          0
    plugin-002                  running      2.0   0.000     0ms       0B          0
    plugin-003                  running      3.0   0.000     0ms       0B          0
    plugin-004                  running      4.0   0.000     0ms       0B          0
    plugin-005                  running      5.0   0.000     0ms       0B          0
    plugin-006                  running      6.0   0.000     0ms       0B          0
    plugin-007                  running      7.0   0.000     0ms       0B          0
    plugin-008                  running      8.0   0.000     0ms       0B          0
    plugin-009                  running      9.0   0.000     0ms       0B          0
    plugin-010                  running     10.0   0.000     0ms       0B          0
    plugin-011                  running     11.0   0.000     0ms       0B          0
    plugin-012                  running     12.0   0.000     0ms       0B          0
    plugin-013                  running     13.0   0.000     0ms       0B          0
    plugin-014                  running     14.0   0.000     0ms       0B          0
    plugin-015                  running     15.0   0.000     0ms       0B          0

    SOURCE                                          STATE  OBJECTS EVENTS/S   MEMORY
    secrets v1/secrets in shop in cluster ea…   Forbidden        0        0       0B
    pods v1/pods                                     Live     1204     13.0   5.0MiB
    q quit   s sort   r reverse   Tab plugins, sources   ? help
    ");
    press(&mut view, &[KeyCode::End]);
    shown(&known, &mut view, NARROW);
    press(&mut view, &[KeyCode::Up]);
    insta::assert_snapshot!(shown(&known, &mut view, NARROW), @"
    informant-0: ready, 19900 calls/s, lag …
    200 plugins, 2 sources (1 not live), 12…
    > PLUGIN▲ 194-199/200    CALLS/S     CPU
    plugin-193                   193   0.000
    plugin-194                   194   0.000
    plugin-195                   195   0.000
    plugin-196                   196   0.000
    plugin-197                   197   0.000
    plugin-198                   198   0.000
    q quit   s sort   r reverse   Tab plugi…
    ");
}

#[test]
fn an_empty_daemon_and_one_that_said_nothing_are_shown() {
    let mut known = Known::default();
    insta::assert_snapshot!(at_first(&known, NARROW), @"
    informant: 0 calls/s, lag 0ms, CPU 0.000
    0 plugins, 0 sources, 0 objects, 0 even…
    > PLUGIN                CALLS/S▼     CPU






    q quit   s sort   r reverse   Tab plugi…
    ");
    apply(
        &mut known,
        "overview",
        &json!({"ready": false, "notReady": ["informer.pods"]}),
    );
    rows(&mut known, "plugins", &[]);
    rows(&mut known, "sources", &[]);
    insta::assert_snapshot!(at_first(&known, NARROW), @"
    informant: not ready, 0 calls/s, lag 0m…
    0 plugins, 0 sources, 0 objects, 0 even…
    Not ready: informer.pods
    > PLUGIN                CALLS/S▼     CPU





    q quit   s sort   r reverse   Tab plugi…
    ");
}

#[test]
fn hostile_text_is_escaped() {
    let mut known = known();
    let text = "\u{202e}gpj\u{1b}[2J\r\n\u{7}日本語".to_owned();
    let plugin = json!({"name": text, "state": "\u{1b}c"});
    rows(&mut known, "plugins", &[plugin]);
    rows(
        &mut known,
        "sources",
        &[json!({"key": "1", "informer": text, "resource": "v1/pods", "state": "Live", "perSecond": 0})],
    );
    let mut hostile = overview();
    hostile["pod"] = json!(text);
    hostile["problems"] = json!([{"text": text}, {"text": "another"}]);
    apply(&mut known, "overview", &hostile);
    insta::assert_snapshot!(at_first(&known, WIDE), @r"
    \u{202e}gpj\u{1b}[2J\r\n\u{7}日 本 語 : ready, 0 calls/s, lag 0ms, CPU 0.000, memo…
    1 plugin, 1 source, 0 objects, 0 events/s, cache 12MiB of 64MiB
    \u{202e}gpj\u{1b}[2J\r\n\u{7}日 本 語  (and 1 more: informant status)
    > PLUGIN                      STATE CALLS/S▼     CPU     LAG   MEMORY  EFFECTS/S
    \u{202e}gpj\u{1b}[2J\r…     \u{1b}c        -       -       -        -          -
















    SOURCE                                          STATE  OBJECTS EVENTS/S   MEMORY
    \u{202e}gpj\u{1b}[2J\r\n\u{7}日 本 語  v1/p…        Live        0        0       0B
    q quit   s sort   r reverse   Tab plugins, sources   ? help
    ");
    insta::assert_snapshot!(tables(&known), @r"
    \u{202e}gpj\u{1b}[2J\r\n\u{7}日本語: ready, 0 calls/s, lag 0ms, CPU 0.000, memory 84MiB of 512MiB
    1 plugin, 1 source, 0 objects, 0 events/s, cache 12MiB of 64MiB
    \u{202e}gpj\u{1b}[2J\r\n\u{7}日本語 (and 1 more: informant status)

    PLUGIN                                STATE     CALLS/S   CPU   LAG   MEMORY   EFFECTS/S   PENDING
    \u{202e}gpj\u{1b}[2J\r\n\u{7}日本語   \u{1b}c   -         -     -     -        -           -

    SOURCE                                        STATE   OBJECTS   EVENTS/S   MEMORY
    \u{202e}gpj\u{1b}[2J\r\n\u{7}日本語 v1/pods   Live    0         0          0B
    ");
}

#[test]
fn a_lost_connection_is_shown_and_what_was_known_stays() {
    let mut known = known();
    known
        .apply(Update::Lost(
            "cannot connect to 127.0.0.1:8089: connection refused".to_owned(),
        ))
        .unwrap();
    insta::assert_snapshot!(at_first(&known, NARROW), @"
    informant-0: ready, 13.0 calls/s, lag 2…
    4 plugins, 2 sources (1 not live), 1204…
    Connection lost, trying again: cannot c…
    > PLUGIN                CALLS/S▼     CPU
    labeler                     12.5   0.031
    image-updates                0.5   0.200
    broken                         -       -
    restarter                      0   0.000

    q quit   s sort   r reverse   Tab plugi…
    ");
    known.apply(Update::Connected).unwrap();
    assert!(!at_first(&known, NARROW).contains("lost"));
}

#[test]
fn help_covers_the_tables() {
    let mut view = View::new(BY_CALLS);
    press(&mut view, &[KeyCode::Char('?')]);
    insta::assert_snapshot!(shown(&known(), &mut view, WIDE), @"
    informant-0: ready, 13.0 calls/s, lag 200ms, CPU 0.231, memory 84MiB of 512MiB
    4 plugins, 2 sources (1 not live), 1204 objects, 13.0 events/s, cache 12MiB of …
    > PLUGIN                      STATE CALLS/S▼     CPU     LAG   MEMORY  EFFECTS/S
    labeler                     running     12.5   0.031   200ms   2.0MiB        3.0
    image-updates               running      0.5   0.200     0ms   9.0MiB          0
    broken                      refused        -       -       -        -          -
    restarter     ┌ Keys ────────────────────────────────────────────┐ 0B          0
                  │ q Esc Ctrl-C  quit                               │
                  │ s > / <       sort by the next / previous column │
                  │ c u l m       sort by calls, CPU, lag, memory    │
                  │ e p n         sort by effects, pending, name     │
                  │ r             reverse the order                  │
                  │ Tab           plugins or sources                 │
                  │ Up Down j k   scroll by a row                    │
                  │ PgUp PgDn     scroll by a page                   │
                  │ Home End      to the first, to the last          │
                  │ Ctrl-L        draw the screen again              │
                  │ ?             this help; any key closes it       │
                  └──────────────────────────────────────────────────┘

    SOURCE                                          STATE  OBJECTS EVENTS/S   MEMORY
    secrets v1/secrets in shop in cluster ea…   Forbidden        0        0       0B
    pods v1/pods                                     Live     1204     13.0   5.0MiB
    q quit   s sort   r reverse   Tab plugins, sources   ? help
    ");
}

#[test]
fn any_size_and_sort_can_be_drawn() {
    for known in [Known::default(), known(), many()] {
        for (width, height) in (0..60).flat_map(|width| (0..16).map(move |height| (width, height))) {
            let mut view = View::new((SortBy::Pending, true));
            press(
                &mut view,
                &[KeyCode::End, KeyCode::Tab, KeyCode::End, KeyCode::Char('?')],
            );
            shown(&known, &mut view, (width, height));
            view.with_help = false;
            shown(&known, &mut view, (width, height));
        }
    }
}

#[test]
fn no_color_leaves_only_bold_and_reversed_text() {
    let has_color = |with_colors| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let mut view = View::new(BY_CALLS);
        let drawn = terminal
            .draw(|frame| screen::draw(frame, &known(), &mut view, with_colors))
            .unwrap();
        let mut cells = drawn.buffer.content().iter();
        assert!(
            drawn
                .buffer
                .content()
                .iter()
                .any(|cell| cell.modifier.contains(Modifier::BOLD))
        );
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(has_color(true));
    assert!(!has_color(false));
}

fn tables(known: &Known) -> String {
    let mut bytes = Vec::new();
    plain::write(&mut Escaped::new(&mut bytes, Form::Text), known, BY_CALLS).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn plain_tables_have_all_columns() {
    insta::assert_snapshot!(tables(&known()), @"
    informant-0: ready, 13.0 calls/s, lag 200ms, CPU 0.231, memory 84MiB of 512MiB
    4 plugins, 2 sources (1 not live), 1204 objects, 13.0 events/s, cache 12MiB of 64MiB

    PLUGIN          STATE         CALLS/S   CPU     LAG     MEMORY   EFFECTS/S   PENDING
    labeler         running       12.5      0.031   200ms   2.0MiB   3.0         4
    image-updates   running       0.5       0.200   0ms     9.0MiB   0           0
    broken          refused       -         -       -       -        -           -
    restarter       quarantined   0         0.000   0ms     0B       0           31

    SOURCE                                       STATE       OBJECTS   EVENTS/S   MEMORY
    secrets v1/secrets in shop in cluster east   Forbidden   0         0          0B
    pods v1/pods                                 Live        1204      13.0       5.0MiB
    ");
}

#[test]
fn documents_have_rows_in_the_order_of_the_sort() {
    let known = known();
    let document = json!(known.document((SortBy::Cpu, false)));
    assert_eq!(document["plugins"][0]["name"], "image-updates");
    assert_eq!(document["sources"][0]["state"], "Forbidden");
    assert_eq!(document["overview"]["pod"], "informant-0");
    assert!(document["overview"].get("series").is_none());
}

#[test]
fn counts_and_intervals_begin_at_one() {
    for flag in ["--iterations=0", "--interval=0", "--sort=color"] {
        assert!(Cli::try_parse_from(["informant", "top", flag]).is_err(), "{flag}");
    }
}
