//! `listen`: the address and port of a server.

use std::net::SocketAddr;

use crate::source::Located;
use crate::table::Table;

/// Reads `listen`; reports a text that is no address.
pub(crate) fn read(table: &Table<'_>, help: &str) -> Option<Located<SocketAddr>> {
    let text = table.string("listen")?;
    let Ok(value) = text.value.parse::<SocketAddr>() else {
        let problem = table.error(
            text.position,
            format!("`listen` = \"{}\" is not an address and a port", text.value),
        );
        table.reporter().report(problem.help(help));
        return None;
    };
    Some(Located {
        value,
        position: text.position,
    })
}
