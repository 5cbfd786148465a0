//! What the Leases of a group say about its layout.

use informant_cache::Division;

use crate::layout::Layout;
use crate::record::LeaseContent;

/// What the Leases say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreed {
    /// The layout in force.
    pub(super) layout: Layout,
    /// The one that the group changes to.
    pub(super) next: Option<Layout>,
    /// The Lease of the first shard says that. If not, it was deleted or edited by hand, and this is what it should
    /// say.
    pub(super) is_written: bool,
}

impl Agreed {
    /// `first` is the Lease of the first shard, `others` the layouts of the others that exist, by number. `own` is what
    /// this member is configured for: the layout of a group that has no Leases yet.
    pub(super) fn of(
        first: Option<&LeaseContent>,
        others: impl Iterator<Item = (u8, Layout)>,
        own: Division,
    ) -> Agreed {
        // A Lease that its own layout does not have is left from one with more shards.
        let others: Vec<Layout> = others
            .filter(|(shard, layout)| layout.has(*shard))
            .map(|(_, layout)| layout)
            .collect();
        let (lowest, highest) = (
            others.iter().min_by_key(|layout| layout.generation).copied(),
            others.iter().max_by_key(|layout| layout.generation).copied(),
        );
        let written = first.map(|content| Agreed {
            layout: content.layout,
            next: content
                .next_layout
                .filter(|next| next.generation > content.layout.generation),
            is_written: true,
        });
        let fits = |written: &Agreed| {
            let is_known = |layout: &Layout| *layout == written.layout || Some(*layout) == written.next;
            others.is_empty() || others.iter().any(is_known)
        };
        match written.filter(fits) {
            Some(written) => written,
            None => Agreed {
                layout: lowest.unwrap_or_else(|| Layout::first(own)),
                next: highest.filter(|highest| Some(*highest) != lowest),
                is_written: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Division = Division {
        shards: 4,
        ..Division::WHOLE
    };

    fn layout(text: &str) -> Layout {
        Layout::parse(text).unwrap_or(Layout::WHOLE)
    }

    fn agreed(first: Option<(&str, Option<&str>)>, others: &[&str]) -> (String, Option<String>, bool) {
        let content = first.map(|(in_force, next)| {
            let mut content = LeaseContent::from_parts(None, None, None, []);
            (content.layout, content.next_layout) = (layout(in_force), next.map(layout));
            content
        });
        let others = others.iter().zip(1..).map(|(text, shard)| (shard, layout(text)));
        let agreed = Agreed::of(content.as_ref(), others, OWN);
        (
            agreed.layout.to_string(),
            agreed.next.map(|next| next.to_string()),
            agreed.is_written,
        )
    }

    #[test]
    fn first_lease_names_the_layout() {
        for (first, others, wanted) in [
            // A group that has no Leases, and one from before there were shards.
            (None, &[][..], ("1:4", None, false)),
            (Some(("", None)), &[], ("0:1", None, true)),
            // During a change, and after it.
            (
                Some(("1:4", Some("2:2"))),
                &["2:2", "1:4", "1:4"],
                ("1:4", Some("2:2"), true),
            ),
            (Some(("2:2", None)), &["2:2", "2:2", "2:2"], ("2:2", None, true)),
            // One of the others was edited by hand.
            (Some(("2:4", None)), &["2:4", "9:64", "2:4"], ("2:4", None, true)),
        ] {
            let (layout, next, is_written) = wanted;
            let wanted = (layout.to_owned(), next.map(str::to_owned), is_written);
            assert_eq!(agreed(first, others), wanted, "{first:?} {others:?}");
        }
    }

    #[test]
    fn other_leases_restore_what_the_first_one_should_say() {
        for (first, others, layout, next) in [
            (None, &["2:4", "2:4", "2:4"][..], "2:4", None),
            (Some(("", None)), &["2:4", "2:4", "2:4"], "2:4", None),
            (Some(("7:64", None)), &["2:4", "2:4", "2:4"], "2:4", None),
            (None, &["3:8", "2:4", "2:4"], "2:4", Some("3:8")),
        ] {
            let wanted = (layout.to_owned(), next.map(str::to_owned), false);
            assert_eq!(agreed(first, others), wanted, "{first:?} {others:?}");
        }
    }
}
