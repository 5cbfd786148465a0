//! Which file of a crate imports from which.
//!
//! A path leads to the file of the last module it names: `crate::store::Indexer` is an import of `store`, also if
//! `store` re-exports `Indexer` from elsewhere. If that module contains the importing one, the import would say
//! nothing about the order of the crate. Then the re-export is followed to the module it takes the name from.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemUse, Macro, Path, TraitItem, UseTree, Visibility};

use crate::sources::{Crate, ModulePath};
use crate::test_code;

/// An import of one file by another one of the same crate. Neither's module contains the other's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// Index of the importing file.
    pub from: usize,
    /// Where the path is.
    pub line: usize,
    /// Index of the imported file.
    pub to: usize,
    /// The path as written.
    pub path: String,
}

/// The imports between the files of `one`, sorted.
pub fn of(one: &Crate) -> Vec<Import> {
    let mentions: Vec<Mentions> = one
        .files
        .iter()
        .map(|file| {
            let mut mentions = Mentions::new(file.module.clone());
            mentions.visit_file(&file.syntax);
            mentions
        })
        .collect();
    let mut names = BTreeMap::new();
    for of_file in &mentions {
        for used in &of_file.uses {
            names.insert((used.scope.clone(), used.name.clone()), used.path.clone());
        }
    }
    let resolver = Resolver { one, names };
    let mut imports = Vec::new();
    for (from, of_file) in mentions.iter().enumerate() {
        for mention in &of_file.paths {
            if let Some(to) = resolver.file_of(from, mention) {
                imports.push(Import {
                    from,
                    line: mention.line,
                    to,
                    path: mention.path.join("::"),
                });
            }
        }
    }
    imports.sort();
    imports.dedup();
    imports
}

/// Whether one of the modules contains the other, or they are the same.
pub(crate) fn are_related(one: &[String], other: &[String]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// A path in the text.
struct Mention {
    /// The module that contains it.
    scope: ModulePath,
    path: Vec<String>,
    line: usize,
}

/// A name that a `use` declaration brings into a module.
struct Used {
    scope: ModulePath,
    name: String,
    path: Vec<String>,
}

/// Collects the paths of a file.
struct Mentions {
    scope: ModulePath,
    paths: Vec<Mention>,
    uses: Vec<Used>,
}

impl Mentions {
    fn new(scope: ModulePath) -> Mentions {
        Mentions {
            scope,
            paths: Vec::new(),
            uses: Vec::new(),
        }
    }

    fn mention(&mut self, path: Vec<String>, line: usize) {
        self.paths.push(Mention {
            scope: self.scope.clone(),
            path,
            line,
        });
    }

    fn use_tree(&mut self, before: &[String], tree: &UseTree) {
        let line = tree.span().start().line;
        let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(before, item)),
            UseTree::Glob(_) => self.mention(before.to_vec(), line),
            UseTree::Name(name) => self.used(name.ident.to_string(), with(&name.ident), line),
            UseTree::Rename(rename) => self.used(rename.rename.to_string(), with(&rename.ident), line),
        }
    }

    fn used(&mut self, mut name: String, mut path: Vec<String>, line: usize) {
        // `use a::b::{self}` is `use a::b`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
            if name == "self" {
                name = path.last().cloned().unwrap_or_default();
            }
        }
        self.uses.push(Used {
            scope: self.scope.clone(),
            name,
            path: path.clone(),
        });
        self.mention(path, line);
    }

    /// The paths among the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons < 2 {
                        self.path_of_tokens(&mut path, line);
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Group(group) => {
                    self.path_of_tokens(&mut path, line);
                    colons = 0;
                    self.tokens(group.stream());
                }
                _ => {
                    self.path_of_tokens(&mut path, line);
                    colons = 0;
                }
            }
        }
        self.path_of_tokens(&mut path, line);
    }

    fn path_of_tokens(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.mention(path, line);
        }
    }
}

impl<'a> Visit<'a> for Mentions {
    fn visit_item(&mut self, item: &'a Item) {
        if test_code::is_test(test_code::of_item(item)) {
            return;
        }
        match item {
            Item::Mod(module) => {
                self.scope.push(module.ident.to_string());
                visit::visit_item(self, item);
                self.scope.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        if !test_code::is_test(test_code::of_impl_item(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        if !test_code::is_test(test_code::of_trait_item(item)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.use_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a Path) {
        if path.leading_colon.is_none() {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string());
            self.mention(segments.collect(), path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    // Neither `#[derive(…)]` nor `pub(in …)` is an import.
    fn visit_attribute(&mut self, _: &'a Attribute) {}
    fn visit_visibility(&mut self, _: &'a Visibility) {}
}

/// How many re-exports are followed for one path. They may form a circle.
const RE_EXPORTS_MAX: usize = 16;

struct Resolver<'a> {
    one: &'a Crate,
    /// What each name means that a `use` declaration brings into a module.
    names: BTreeMap<(ModulePath, String), Vec<String>>,
}

impl Resolver<'_> {
    /// The file that `mention` in file `from` imports, if neither's module contains the other's.
    fn file_of(&self, from: usize, mention: &Mention) -> Option<usize> {
        let module = &self.one.files[from].module;
        let path = self.absolute(&mention.scope, &mention.path, true)?;
        let to = self.one.modules[&self.module_of(module, path)?];
        (!are_related(module, &self.one.files[to].module)).then_some(to)
    }

    /// `path` in `scope` from the root of the crate, or `None` if it leads out of the crate or names a local item.
    fn absolute(&self, scope: &ModulePath, path: &[String], by_use: bool) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([scope.as_slice(), rest].concat()),
            "super" => {
                let (_, parent) = scope.split_last()?;
                match rest.first() {
                    Some(next) if next == "super" => self.absolute(&parent.to_vec(), rest, by_use),
                    _ => Some([parent, rest].concat()),
                }
            }
            name => {
                let child = [scope.as_slice(), &[name.to_owned()]].concat();
                if self.one.modules.contains_key(&child) {
                    return Some([scope.as_slice(), path].concat());
                }
                if !by_use {
                    return None;
                }
                let used = self.names.get(&(scope.clone(), name.to_owned()))?;
                let used = self.absolute(scope, used, false)?;
                Some([used.as_slice(), rest].concat())
            }
        }
    }

    /// The module that an absolute path leads to, as seen from `importer`.
    fn module_of(&self, importer: &ModulePath, mut path: Vec<String>) -> Option<ModulePath> {
        for _ in 0..RE_EXPORTS_MAX {
            let named = (0..=path.len())
                .rev()
                .find(|&len| self.one.modules.contains_key(&path[..len]))?;
            let module = path[..named].to_vec();
            let (Some(name), true) = (path.get(named), importer.starts_with(&module)) else {
                return Some(module);
            };
            let Some(used) = self.names.get(&(module.clone(), name.clone())) else {
                return Some(module);
            };
            // Of another crate.
            let used = self.absolute(&module, used, false)?;
            path = [used.as_slice(), &path[named + 1..]].concat();
        }
        None
    }
}
