//! What every language does alike.

use super::Behavior;
use super::Step::{Delete, Forget, Put, PutLarge, Swap};

const PLAIN: Behavior = Behavior {
    name: "",
    config: "{}",
    steps: &[],
    lines: &[],
    reports: "",
    metrics: &[],
    ends_with: (0, 0),
};

pub(super) const BEHAVIORS: &[Behavior] = &[
    Behavior {
        name: "handlers receive each change once and in order",
        steps: &[
            Put("", "a", "", "one"),
            Put("", "a", "", "two"),
            Delete("a", false),
            Put("", "b", "", "one"),
            Delete("b", true),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=- sees=metadata+spec text=two",
            "3 delete default/a watch 0 old=- sees=metadata+spec text=two",
            "4 add default/b watch 0 old=- sees=metadata+spec text=one",
            "5 vanish default/b watch 0 old=- sees=metadata+spec text=one",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a delete may come without any state",
        steps: &[Put("", "a", "", "one"), Forget("a"), Put("", "a", "", "two")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 vanish default/a watch 0 old=- sees=nothing text=-",
            "3 add default/a watch 0 old=- sees=metadata+spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "the old state comes with updates on request",
        config: r#"{ "old": "yes" }"#,
        steps: &[Put("", "a", "", "one"), Put("", "a", "", "two")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=one sees=metadata+spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "only metadata is sent on request",
        config: r#"{ "payload": "metadata" }"#,
        steps: &[Put("", "a", "", "one"), Delete("a", false)],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata text=-",
            "2 delete default/a watch 0 old=- sees=metadata text=-",
        ],
        ..PLAIN
    },
    Behavior {
        name: "only the named fields are sent on request",
        config: r#"{ "payload": "/spec/text", "old": "yes" }"#,
        steps: &[Put("", "a", "", "one"), Put("", "a", "", "two")],
        lines: &[
            "1 add default/a watch 0 old=- sees=spec text=one",
            "2 update default/a watch 0 old=one sees=spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "without a payload a handler knows what changed",
        config: r#"{ "payload": "none" }"#,
        steps: &[
            Put("", "a", "", "one"),
            Put("", "a", "", "two"),
            Delete("a", false),
            Put("", "b", "", "one"),
            Delete("b", true),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=nothing text=-",
            "2 update default/a watch 0 old=- sees=nothing text=-",
            "3 delete default/a watch 0 old=- sees=nothing text=-",
            "4 add default/b watch 0 old=- sees=nothing text=-",
            "5 vanish default/b watch 0 old=- sees=nothing text=-",
        ],
        ..PLAIN
    },
    Behavior {
        name: "every text arrives and is logged unchanged",
        steps: &[
            Put("", "a", "", "aä€😀"),
            Put("", "a", "", r#"a \"quote\", a \\, a \u00e4, \ud83d\ude00 and a \/"#),
            Put("", "a", "", ""),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            r#"2 update default/a watch 0 old=- sees=metadata+spec text=a "quote", a \, a ä, 😀 and a /"#,
            "3 update default/a watch 0 old=- sees=metadata+spec text=",
        ],
        ..PLAIN
    },
    Behavior {
        name: "large objects arrive whole, with the old state",
        config: r#"{ "old": "yes" }"#,
        steps: &[PutLarge("a", 1 << 20), Put("", "a", "", "one"), PutLarge("a", 1 << 20)],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=1048576",
            "2 update default/a watch 0 old=1048576 sees=metadata+spec text=one",
            "3 update default/a watch 0 old=one sees=metadata+spec text=1048576",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a retryable failure is tried again",
        steps: &[Put("", "a", "retryable", "aä€😀")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            "2 add default/a watch 1 old=- sees=metadata+spec text=aä€😀",
        ],
        reports: "aä€😀",
        ..PLAIN
    },
    Behavior {
        name: "a failure with a delay is tried again",
        steps: &[Put("", "a", "retry-after", "aä€😀")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            "2 add default/a watch 1 old=- sees=metadata+spec text=aä€😀",
        ],
        reports: "aä€😀",
        ..PLAIN
    },
    Behavior {
        name: "a permanent failure is a dead letter",
        steps: &[Put("", "a", "permanent", "aä€😀"), Put("", "b", "", "one")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=aä€😀",
            "2 add default/b watch 0 old=- sees=metadata+spec text=one",
        ],
        reports: "aä€😀",
        ends_with: (1, 0),
        ..PLAIN
    },
    Behavior {
        name: "a trap loses the memory, and the event is retried",
        steps: &[
            Put("", "a", "", "one"),
            Put("", "b", "trap", "two"),
            Put("", "c", "", "three"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 add default/b watch 0 old=- sees=metadata+spec text=two",
            "1 add default/b watch 1 old=- sees=metadata+spec text=two",
            "2 add default/c watch 0 old=- sees=metadata+spec text=three",
        ],
        ends_with: (0, 1),
        ..PLAIN
    },
    Behavior {
        name: "a requeue calls again without a change",
        config: r#"{ "old": "yes" }"#,
        steps: &[Put("", "a", "requeue", "one")],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a requeue-after 0 old=- sees=metadata+spec text=one",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a requeue after a delete is a delete",
        steps: &[
            Put("", "a", "", "one"),
            Put("", "a", "requeue", "two"),
            Delete("a", false),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=- sees=metadata+spec text=two",
            "3 delete default/a watch 0 old=- sees=metadata+spec text=two",
            "4 delete default/a requeue-after 0 old=- sees=metadata+spec text=two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "the next version receives the state",
        steps: &[
            Put("", "a", "", "one"),
            Swap,
            Put("", "a", "", "two"),
            Swap,
            Put("", "a", "", "three"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=one",
            "2 update default/a watch 0 old=- sees=metadata+spec text=two",
            "3 update default/a watch 0 old=- sees=metadata+spec text=three",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a failed call remembers nothing",
        steps: &[
            Put("", "a", "remember", "fails"),
            Put("", "b", "remember", "one"),
            Put("", "b", "remember", "two"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=fails",
            "remembered=1 new=true keys=seen/a",
            "2 add default/a watch 1 old=- sees=metadata+spec text=fails",
            "remembered=1 new=true keys=seen/a",
            "3 add default/b watch 0 old=- sees=metadata+spec text=one",
            "remembered=2 new=true keys=seen/a,seen/b",
            "4 update default/b watch 0 old=- sees=metadata+spec text=two",
            "remembered=3 new=false keys=seen/a,seen/b",
        ],
        ..PLAIN
    },
    Behavior {
        name: "a failed call changes no metrics",
        steps: &[
            Put("", "a", "measure", "fails"),
            Put("", "b", "measure", "one"),
            Put("", "b", "measure", "one"),
        ],
        lines: &[
            "1 add default/a watch 0 old=- sees=metadata+spec text=fails",
            "undeclared=invalid",
            "2 add default/a watch 1 old=- sees=metadata+spec text=fails",
            "undeclared=invalid",
            "3 add default/b watch 0 old=- sees=metadata+spec text=one",
            "undeclared=invalid",
            "4 update default/b watch 0 old=- sees=metadata+spec text=one",
            "undeclared=invalid",
        ],
        metrics: &[
            r#"bytes{plugin="conformance"} 3.0"#,
            r#"last{plugin="conformance",name="b"} 1.0"#,
            r#"seen_total{plugin="conformance",text="fails"} 1.0"#,
            r#"seen_total{plugin="conformance",text="one"} 2.0"#,
            r#"sizes_bucket{le="+Inf",plugin="conformance"} 3"#,
            r#"sizes_bucket{le="2.0",plugin="conformance"} 0"#,
            r#"sizes_bucket{le="4.0",plugin="conformance"} 2"#,
            r#"sizes_count{plugin="conformance"} 3"#,
            r#"sizes_sum{plugin="conformance"} 11.0"#,
        ],
        ..PLAIN
    },
    Behavior {
        name: "an unnamed cluster is read without naming it",
        steps: &[Put("", "peer", "", "one"), Put("", "reader", "read", "two")],
        lines: &[
            "1 add default/peer watch 0 old=- sees=metadata+spec text=one",
            "2 add default/reader watch 0 old=- sees=metadata+spec text=two",
            "found=one listed=one,two keys=2 everywhere=one,two",
        ],
        ..PLAIN
    },
    Behavior {
        name: "reads default to the cluster of the event",
        steps: &[
            Put("east", "peer", "", "in east"),
            Put("west", "other", "", "in west"),
            Put("east", "reader", "read", "one"),
            Put("west", "reader", "read", "two"),
        ],
        lines: &[
            r#"synced pods east {"attempt":0,"reason":"initial"}"#,
            r#"synced pods west {"attempt":0,"reason":"initial"}"#,
            "1 add default/peer watch 0 old=- sees=metadata+spec text=in east",
            "2 add default/other watch 0 old=- sees=metadata+spec text=in west",
            "3 add default/reader watch 0 old=- sees=metadata+spec text=one",
            "found=in east listed=in east,one keys=2 everywhere=in east,one,in west",
            "4 add default/reader watch 0 old=- sees=metadata+spec text=two",
            "found=- listed=in west,two keys=2 everywhere=in east,one,in west,two",
        ],
        ..PLAIN
    },
];
