//! Several pointers compiled into one tree, so that one walk over an object follows all of them.
//!
//! A name and a `*` may match the same member; then the walk is at several nodes at once. [`Matcher`] keeps those nodes
//! on a stack, one [`Level`] per nesting: no limit on pointers, no exponential growth, no allocation per walk (each
//! thread keeps a stack).

use std::cell::Cell;

use crate::pointer::{Pointer, PointerToken};
use crate::scanner::Text;

/// A set of pointers, as a tree of their tokens. Node 0 is the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSet {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    children: Vec<Child>,
    any: Option<u32>,
    /// Whether a pointer ends here.
    end: bool,
    /// Whether a pointer to a value that becomes a digest ends here.
    digest: bool,
}

/// A named child of a node.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) name: Box<str>,
    index: Option<u32>,
    node: u32,
}

/// The nodes of a walk at one nesting level: a range of [`Matcher::stack`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    start: usize,
    end: usize,
}

thread_local! {
    static STACK: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// A stack that grew beyond this for deep pointers with many `*` is freed.
const STACK_NODES_KEPT: usize = 1 << 10;

/// Follows a [`PathSet`] down an object.
pub(crate) struct Matcher<'p> {
    set: &'p PathSet,
    stack: Vec<u32>,
}

impl PathSet {
    pub(crate) fn new<'p>(pointers: impl IntoIterator<Item = &'p Pointer>) -> PathSet {
        let mut set = PathSet::default();
        for pointer in pointers {
            set.insert(pointer).end = true;
        }
        set
    }

    /// Adds pointers to values that become digests.
    pub(crate) fn add_digests(&mut self, pointers: &[Pointer]) {
        for pointer in pointers {
            self.insert(pointer).digest = true;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node at which `pointer` ends, created if absent.
    fn insert(&mut self, pointer: &Pointer) -> &mut Node {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let end = pointer.tokens().iter().fold(0, |node, token| self.child(node, token));
        &mut self.nodes[end as usize]
    }

    /// The child of `node` for `token`, created if absent.
    fn child(&mut self, node: u32, token: &PointerToken) -> u32 {
        let new = u32::try_from(self.nodes.len()).expect("fewer pointers than 2^32");
        let parent = &mut self.nodes[node as usize];
        match token {
            PointerToken::Any => {
                if let Some(any) = parent.any {
                    return any;
                }
                parent.any = Some(new);
            }
            PointerToken::Name(name) => {
                if let Some(child) = parent.children.iter().find(|child| child.name == *name) {
                    return child.node;
                }
                if parent.children.is_empty() {
                    // Most have one child, and each plugin has such a tree.
                    parent.children.reserve_exact(1);
                }
                parent.children.push(Child {
                    name: name.clone(),
                    index: token.index(),
                    node: new,
                });
            }
        }
        self.nodes.push(Node::default());
        new
    }
}

impl Drop for Matcher<'_> {
    fn drop(&mut self) {
        let mut stack = std::mem::take(&mut self.stack);
        if (1..=STACK_NODES_KEPT).contains(&stack.capacity()) {
            stack.clear();
            STACK.set(stack);
        }
    }
}

impl Level {
    pub(crate) const NONE: Level = Level { start: 0, end: 0 };

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl<'p> Matcher<'p> {
    pub(crate) fn new(set: &'p PathSet) -> Matcher<'p> {
        // Nothing is pushed for an empty set.
        let stack = if set.is_empty() { Vec::new() } else { STACK.take() };
        Matcher { set, stack }
    }

    /// A matcher that matches nothing.
    pub(crate) fn idle() -> Matcher<'p> {
        static NOTHING: PathSet = PathSet { nodes: Vec::new() };
        Matcher::new(&NOTHING)
    }

    /// The level of the whole object.
    pub(crate) fn root(&mut self) -> Level {
        if self.set.is_empty() {
            return Level::NONE;
        }
        self.stack.push(0);
        Level { start: 0, end: 1 }
    }

    /// The names that continue from `level`, if it consists of one node without `*`.
    pub(crate) fn names(&self, level: Level) -> Option<&'p [Child]> {
        let [node] = self.stack[level.start..level.end] else {
            return None;
        };
        let node = &self.set.nodes[node as usize];
        node.any.is_none().then_some(&node.children)
    }

    /// The level of one of these names. [`leave`](Self::leave) it when done.
    pub(crate) fn child(&mut self, child: &Child) -> Level {
        let start = self.stack.len();
        self.stack.push(child.node);
        Level { start, end: start + 1 }
    }

    /// The level of the member `name` below `level`. [`leave`](Self::leave) it when done.
    pub(crate) fn member(&mut self, level: Level, name: Text, text: &[u8]) -> Level {
        self.step(level, |child| name.is(text, &child.name))
    }

    /// The level of the array element at `index`. [`leave`](Self::leave) it when done.
    pub(crate) fn element(&mut self, level: Level, index: u32) -> Level {
        self.step(level, |child| child.index == Some(index))
    }

    fn step(&mut self, level: Level, matches: impl Fn(&Child) -> bool) -> Level {
        if level.is_empty() {
            return Level::NONE;
        }
        let start = self.stack.len();
        for position in level.start..level.end {
            let node = &self.set.nodes[self.stack[position] as usize];
            let named = node.children.iter().find(|child| matches(child));
            self.stack.extend(named.map(|child| child.node));
            self.stack.extend(node.any);
        }
        Level {
            start,
            end: self.stack.len(),
        }
    }

    /// Whether a pointer ends at this level.
    pub(crate) fn ends(&self, level: Level) -> bool {
        self.stack[level.start..level.end]
            .iter()
            .any(|node| self.set.nodes[*node as usize].end)
    }

    /// Whether the value at this level becomes a digest.
    pub(crate) fn digests(&self, level: Level) -> bool {
        self.stack[level.start..level.end]
            .iter()
            .any(|node| self.set.nodes[*node as usize].digest)
    }

    /// Returns to the state before `level` was entered.
    pub(crate) fn leave(&mut self, level: Level) {
        if !level.is_empty() {
            self.stack.truncate(level.start);
        }
    }
}
