//! The files of a crate that are not tests, as a tree of modules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Item, ItemMod, Lit, Meta};

use crate::test_code;

/// A module by its path from the root of its crate. The root is empty.
pub type ModulePath = Vec<String>;

/// A crate without its tests.
pub struct Crate {
    /// Its folder from the root of the repository, for example `host/cache`.
    pub folder: String,
    /// Its files, parents before their children.
    pub files: Vec<SourceFile>,
    /// Every module, also those inside a file, with the index of its file.
    pub modules: BTreeMap<ModulePath, usize>,
}

/// A file that is not only for tests.
pub struct SourceFile {
    /// Its path from the root of the repository.
    pub path: PathBuf,
    /// The module that the file is.
    pub module: ModulePath,
    /// What it contains, tests included.
    pub syntax: syn::File,
    /// Its lines, without test modules.
    pub lines: usize,
}

/// The root of the repository. Cargo says which one: with a shared target folder, the program may be built from another
/// checkout.
pub fn repository() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let manifest = Path::new(&manifest);
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// All crates below `host/` of the repository at `root`, sorted by folder.
///
/// # Errors
/// If a file cannot be read or parsed, or a module has no file.
pub fn host_crates(root: &Path) -> Result<Vec<Crate>> {
    let host = root.join("host");
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(&host).with_context(|| format!("failed to read {}", host.display()))? {
        let folder = entry?.path();
        if folder.join("Cargo.toml").is_file() {
            folders.push(folder);
        }
    }
    folders.sort();
    folders.iter().map(|folder| read(root, folder)).collect()
}

fn read(root: &Path, folder: &Path) -> Result<Crate> {
    let mut texts = BTreeMap::new();
    let mut folders = vec![folder.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text =
                    std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
                texts.insert(path.strip_prefix(root)?.to_path_buf(), text);
            }
        }
    }
    Crate::parse(&folder.strip_prefix(root)?.to_string_lossy(), &texts)
}

impl Crate {
    /// The crate in `folder`, whose files have the given texts, from its `src/lib.rs`. A `src/main.rs` next to it is
    /// a file without modules of its own.
    ///
    /// # Errors
    /// If a file cannot be parsed, or a module has no file.
    pub fn parse(folder: &str, texts: &BTreeMap<PathBuf, String>) -> Result<Crate> {
        let mut parsed = Crate {
            folder: folder.to_owned(),
            files: Vec::new(),
            modules: BTreeMap::new(),
        };
        let sources = Path::new(folder).join("src");
        parsed.add_file(texts, sources.join("lib.rs"), Vec::new(), &sources)?;
        if texts.contains_key(&sources.join("main.rs")) {
            parsed.add_file(texts, sources.join("main.rs"), vec!["main".to_owned()], &sources)?;
        }
        Ok(parsed)
    }

    /// Adds the file at `path` and, from `children` on, those of its modules.
    fn add_file(
        &mut self,
        texts: &BTreeMap<PathBuf, String>,
        path: PathBuf,
        module: ModulePath,
        children: &Path,
    ) -> Result<()> {
        let text = texts
            .get(&path)
            .with_context(|| format!("{} is missing, but a module is declared", path.display()))?;
        let syntax = syn::parse_file(text).with_context(|| format!("failed to parse {}", path.display()))?;
        if test_code::is_test(&syntax.attrs) {
            return Ok(());
        }
        let index = self.files.len();
        self.modules.insert(module.clone(), index);
        self.files.push(SourceFile {
            lines: text.lines().count() - lines_of_test_modules(&syntax.items),
            path: path.clone(),
            module: module.clone(),
            syntax: syn::File {
                shebang: None,
                attrs: syntax.attrs,
                items: Vec::new(),
            },
        });
        self.add_modules(texts, &syntax.items, &path, &module, children)?;
        self.files[index].syntax.items = syntax.items;
        Ok(())
    }

    fn add_modules(
        &mut self,
        texts: &BTreeMap<PathBuf, String>,
        items: &[Item],
        path: &Path,
        parent: &ModulePath,
        children: &Path,
    ) -> Result<()> {
        for item in items {
            let Item::Mod(item) = item else { continue };
            if test_code::is_test(&item.attrs) {
                continue;
            }
            let name = item.ident.to_string();
            let mut module = parent.clone();
            module.push(name.clone());
            let folder = children.join(&name);
            if let Some((_, items)) = &item.content {
                let index = self.modules[parent];
                self.modules.insert(module.clone(), index);
                self.add_modules(texts, items, path, &module, &folder)?;
                continue;
            }
            let file = match named_path(item) {
                Some(named) => path.parent().unwrap_or(Path::new("")).join(named),
                None => match folder.join("mod.rs") {
                    nested if texts.contains_key(&nested) => nested,
                    _ => children.join(format!("{name}.rs")),
                },
            };
            self.add_file(texts, file, module, &folder)?;
        }
        Ok(())
    }
}

/// The path of `#[path = "…"] mod x;`.
fn named_path(item: &ItemMod) -> Option<PathBuf> {
    item.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(named) if named.path.is_ident("path") => match &named.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text), ..
            }) => Some(PathBuf::from(text.value())),
            _ => None,
        },
        _ => None,
    })
}

/// How many lines the test modules among `items` take.
fn lines_of_test_modules(items: &[Item]) -> usize {
    let modules = items.iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module),
        _ => None,
    });
    modules
        .map(|module| match (&module.content, test_code::is_test(&module.attrs)) {
            (_, true) => module.span().end().line + 1 - module.span().start().line,
            (Some((_, items)), false) => lines_of_test_modules(items),
            (None, false) => 0,
        })
        .sum()
}
