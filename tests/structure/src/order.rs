//! The order of a crate's modules, as its `lib.rs` states it.
//!
//! The documentation of `lib.rs` contains a block like this one, lowest layer first. Modules on one line are one layer
//! and may import each other. Any module with submodules can state an order for them in the same way.
//!
//! ````text
//! ```layers
//! error limits
//! store
//! server
//! ```
//! ````

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use crate::imports::Import;
use crate::sources::{Crate, ModulePath};

/// Everything that is wrong with the orders of `one`, for people.
pub fn findings(one: &Crate, imports: &[Import]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut orders = BTreeMap::new();
    for file in &one.files {
        let Some(order) = stated(&file.syntax.attrs) else {
            if file.module.is_empty() {
                findings.push(format!(
                    "{}: its documentation states no order of its modules; add a block ```layers, lowest layer first",
                    file.path.display()
                ));
            }
            continue;
        };
        findings.extend(
            differences(one, &file.module, &order)
                .iter()
                .map(|difference| format!("{}: {difference}", file.path.display())),
        );
        orders.insert(file.module.clone(), (order, &file.path));
    }
    // One finding for each pair of files: the first import is enough to find the others.
    let mut reported = BTreeSet::new();
    for import in imports {
        let (from, to) = (&one.files[import.from], &one.files[import.to]);
        let common = from
            .module
            .iter()
            .zip(&to.module)
            .take_while(|(one, other)| one == other);
        let common = common.count();
        let Some((order, stated_in)) = orders.get(&from.module[..common]) else {
            continue;
        };
        let (lower, upper) = (&from.module[common], &to.module[common]);
        if let (Some(low), Some(high)) = (order.get(lower), order.get(upper))
            && low < high
            && reported.insert((import.from, import.to))
        {
            findings.push(format!(
                "{}:{}: imports `{}` of {}, but `{lower}` is below `{upper}` in the order of {}",
                from.path.display(),
                import.line,
                import.path,
                to.path.display(),
                stated_in.display(),
            ));
        }
    }
    findings
}

/// The layer of each module that the documentation among `attributes` states, 0 the lowest.
fn stated(attributes: &[Attribute]) -> Option<BTreeMap<String, usize>> {
    let lines: Vec<String> = attributes.iter().filter_map(line_of_documentation).collect();
    let lines = lines.iter().flat_map(|text| text.lines()).map(str::trim);
    let mut block = lines.skip_while(|line| *line != "```layers").skip(1).peekable();
    block.peek()?;
    let layers = block.take_while(|line| *line != "```").enumerate();
    Some(
        layers
            .flat_map(|(layer, line)| line.split_whitespace().map(move |name| (name.to_owned(), layer)))
            .collect(),
    )
}

fn line_of_documentation(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(named) if named.path.is_ident("doc") => match &named.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text), ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// How `order` differs from the modules of `parent` that are files of their own.
fn differences(one: &Crate, parent: &ModulePath, order: &BTreeMap<String, usize>) -> Vec<String> {
    let own = one.modules[parent];
    let children = one.modules.iter().filter(|(module, file)| {
        module.len() == parent.len() + 1 && module.starts_with(parent) && **file != own && **module != ["main"]
    });
    let children: Vec<&String> = children.filter_map(|(module, _)| module.last()).collect();
    let missing = children.iter().filter(|child| !order.contains_key(**child));
    let unknown = order.keys().filter(|name| !children.contains(name));
    missing
        .map(|child| format!("its order lacks the module `{child}`; write it on the line of its layer"))
        .chain(unknown.map(|name| format!("its order contains `{name}`, which is no module of it; remove it")))
        .collect()
}
